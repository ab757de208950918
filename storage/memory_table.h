#pragma once

#include <span>
#include <string>
#include <vector>

#include "storage/key_column.h"
#include "storage/row_index.h"
#include "storage/row_slabs.h"
#include "storage/store.h"

namespace embers::storage {

// One table of the memory store; its members are Store's of the same names, with their contracts.
//
// Batches are located block by block: hash all keys and prefetch their cells, prefetch the keys these point
// to, then compare. Rows are prefetched a few ahead of their use. Nothing waits for one cache miss after
// another.
//
// *Thread safety*: none.
class MemoryTable {
 public:
  MemoryTable(const TableSpec& spec, std::span<const float> slot_init);

  size_t gather(KeysView keys, std::span<float> out, std::span<uint8_t> found);
  size_t add_if_absent(KeysView keys, std::span<const float> values, std::span<const uint8_t> found);
  void update(KeysView keys, std::span<const float> grads, const UpdateKernel& kernel);
  void restore(KeysView keys, std::span<const float> values);
  uint64_t scan(uint64_t cursor, size_t limit, const Store::Visitor& visit);

  const std::string& name() const { return name_; }
  uint32_t rows() const { return index_.rows(); }
  uint64_t resident_bytes() const;

 private:
  static constexpr size_t kBlock = 64;  // keys whose cache misses overlap

  // Leaves in rows_ the row of each key, or RowIndex::kNone.
  void locate(KeysView keys);
  void locate_block(KeysView keys, size_t begin, size_t n);
  uint32_t find(uint64_t hash, KeysView keys, size_t i) const;
  void check_all_located(KeysView keys) const;
  // A new row for the i-th key, its floats still zero.
  float* create(uint64_t hash, KeysView keys, size_t i);
  void prefetch_cell(KeysView keys, size_t i) const;
  void prefetch_row(size_t i, size_t floats) const;

  // Constant after construction.
  std::string name_;
  size_t dim_;
  size_t stride_;  // dim + floats of slots
  std::vector<float> slot_init_;

  // Row r is described by the r-th entry of each.
  KeyColumn keys_;
  RowIndex index_;
  RowSlabs slabs_;

  std::vector<uint32_t> rows_;  // scratch of one call
};

}  // namespace embers::storage
