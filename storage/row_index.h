#pragma once

#include <cstdint>

#include "storage/pages.h"

namespace embers::storage {

// From the hash of a key to the number of its row: open addressing with linear probing. It knows no keys;
// whoever asks compares them, so that int64 and string keys share it.
//
// Invariants: (1) the number of cells is a power of two, at most two thirds of them are used; (2) a cell is 0
// when empty, else (high half of the hash) << 32 | row + 1; (3) nothing is ever removed. The place comes from
// the low bits of the hash: the high ones choose the shard, so within a shard they are alike.
//
// *Thread safety*: none.
class RowIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  void prefetch(uint64_t hash) const {
    if (mask_ != 0) __builtin_prefetch(cells() + (hash & mask_));
  }
  // The row of the first cell that looks like this hash, or kNone: a hint, for prefetching its key.
  uint32_t candidate(uint64_t hash) const {
    return find(hash, [](uint32_t) { return true; });
  }
  // The row of this hash that same(row) accepts, or kNone.
  template <class Same>
  uint32_t find(uint64_t hash, const Same& same) const {
    if (mask_ == 0) return kNone;
    for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
      const uint64_t cell = cells()[at];
      if (cell == 0) return kNone;
      if ((cell ^ hash) >> 32 == 0 && same(row_of(cell))) return row_of(cell);
    }
  }
  // Adds row number rows() with this hash; `hash_of(row)` gives the hashes of older rows when the index must
  // grow.
  template <class HashOf>
  void append(uint64_t hash, const HashOf& hash_of) {
    if ((uint64_t{rows_} + 1) * 3 > cell_count() * 2) grow(hash_of);
    place(hash, rows_++);
  }

  uint32_t rows() const { return rows_; }
  uint64_t resident_bytes() const { return pages_.size(); }

 private:
  static constexpr size_t kFewestCells = 512;  // one small page

  uint64_t* cells() const { return reinterpret_cast<uint64_t*>(pages_.data()); }
  uint64_t cell_count() const { return pages_.size() / sizeof(uint64_t); }
  static uint32_t row_of(uint64_t cell) { return static_cast<uint32_t>(cell) - 1; }

  void place(uint64_t hash, uint32_t row) {
    uint64_t at = hash & mask_;
    while (cells()[at] != 0) at = (at + 1) & mask_;
    cells()[at] = (hash >> 32 << 32) | (row + 1);
  }
  template <class HashOf>
  void grow(const HashOf& hash_of) {
    const size_t bytes = pages_.size() == 0 ? kFewestCells * sizeof(uint64_t) : 2 * pages_.size();
    pages_ = Pages(bytes, bytes >= kHugePage);
    mask_ = cell_count() - 1;
    for (uint32_t row = 0; row < rows_; ++row) place(hash_of(row), row);
  }

  Pages pages_;
  uint64_t mask_ = 0;  // number of cells - 1; 0 before the first row
  uint32_t rows_ = 0;
};

}  // namespace embers::storage
