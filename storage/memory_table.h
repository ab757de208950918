#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "storage/key_bytes.h"
#include "storage/row_format.h"
#include "storage/row_index.h"
#include "storage/row_slabs.h"
#include "storage/store.h"

namespace embers::storage {

// One table of the memory store; its members are Store's of the same names, with their contracts.
//
// Batches go through a pipeline: of a key some places ahead the hash is computed and its bucket prefetched,
// of a nearer one its row is found and prefetched, then it is used. Nothing waits for one cache miss after
// another, nothing is allocated for a row, and nothing that grows is copied at once.
//
// *Thread safety*: none.
class MemoryTable {
 public:
  MemoryTable(const TableSpec& spec, std::span<const float> slot_init);

  size_t gather(KeysView keys, std::span<float> out, std::span<uint8_t> found);
  size_t add_if_absent(KeysView keys, std::span<const float> values, std::span<const uint8_t> found);
  void update(KeysView keys, std::span<const float> grads, const UpdateKernel& kernel, uint64_t step);
  void restore(KeysView keys, std::span<const float> values);
  uint64_t scan(uint64_t cursor, size_t limit, const Store::Visitor& visit);

  // Removes the rows of those `keys` that have one, with their slots; later rows take their place, so that a
  // scan is no longer in order of creation. Returns how many were removed.
  size_t remove(KeysView keys);

  const std::string& name() const { return name_; }
  uint64_t rows() const { return index_.size(); }
  uint64_t resident_bytes() const;

 private:
  static constexpr size_t kLine = 64 / sizeof(float);
  static constexpr size_t kMostLines = 16;  // beyond this the processor's own prefetcher has caught on

  // Calls use(i, its row or nullptr) for each key, in any order, `floats` of the row prefetched.
  template <bool kInts, class Use>
  void stream(KeysView keys, size_t floats, const Use& use);
  size_t gather_floats(KeysView keys, float* out, uint8_t* found);  // float32 rows of int64 keys
  size_t gather_others(KeysView keys, float* out, uint8_t* found);
  uint32_t find(uint64_t hash, KeysView keys, size_t i) const;
  // Leaves in places_ the row of each key; kMissingKey if one has none.
  void locate_all(KeysView keys);
  template <bool kInts>
  size_t locate(KeysView keys);  // the first key that has none
  // The row of the i-th key; a created one, its floats yet to be set, if it had none: zeros of a new place,
  // or what a removed row left behind.
  struct Created {
    uint32_t row;
    enum : uint8_t { kNo, kNew, kAgain } created;
  };
  Created find_or_create(uint64_t hash, KeysView keys, size_t i);
  static size_t lines_of(size_t floats) { return std::min((floats + kLine - 1) / kLine, kMostLines); }
  EMBERS_PREFETCHES static void prefetch_lines(const float* from, size_t lines) {
    for (size_t l = 0; l < lines; ++l) __builtin_prefetch(from + l * kLine);
  }
  // What lies some rows behind a new one: rows in between that stay untouched defeat the processor's
  // prefetcher.
  EMBERS_PREFETCHES void prefetch_new_row(const float* row) const {
    for (size_t f = 0; f < dim_; f += kLine) __builtin_prefetch(row + 4 * stride_ + f, 1);
  }
  // Of a row that is no key's, which a scan leaves out.
  bool is_free(uint32_t row) const { return !used_.empty() && !used_[row]; }
  KeysView keys_from(uint32_t begin, size_t n);
  // Rows [begin, begin + n) with their slots, as they lie or, where those are halves, in shown_.
  std::span<const float> values_from(uint32_t begin, size_t n);
  void update_halves(KeysView keys, std::span<const float> grads, const UpdateKernel& kernel, uint64_t step);
  void list_keys();
  uint64_t end_scan();

  // Constant after construction.
  std::string name_;
  KeyKind kind_;
  size_t dim_;
  RowFormat format_;
  size_t width_;   // dim + floats of slots: what callers see
  size_t stride_;  // what a row and its slots take of a slab, in floats
  std::vector<float> slot_init_;
  bool zero_slots_;  // slot_init_ is what new places hold anyway

  RowIndex index_;
  RowSlabs slabs_;
  KeyBytes key_bytes_;          // only for byte strings
  std::vector<uint32_t> free_;  // rows whose keys were removed, taken again by new ones
  std::vector<bool> used_;      // of each row; empty as long as none was removed

  std::vector<float*> places_;  // scratch of one call
  std::vector<uint32_t> elsewhere_;
  std::vector<int64_t> ints_;   // int64 keys of all rows, only while a scan goes on
  std::vector<uint32_t> ends_;  // of the keys that a scan shows
  std::string bytes_;           // their bytes
  std::vector<float> shown_;    // and, of halves, their values
  std::vector<float> row_;      // of halves, the row that an update changes
};

}  // namespace embers::storage
