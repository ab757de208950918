#pragma once

#include <cstdint>
#include <vector>

#include "storage/pages.h"

namespace embers::storage {

// Rows of a fixed number of floats, numbered from 0 in order of creation, in slabs that never move: a pointer
// to a row stays good, and growth copies nothing. Rows of one slab are contiguous without padding, so that a
// scan shows them as they lie.
//
// *Thread safety*: none.
class RowSlabs {
 public:
  explicit RowSlabs(size_t floats_per_row);

  float* row(uint32_t number) const {
    const uint32_t slab = slab_of(number);
    return base(slab) + size_t{number - slab * rows_per_slab_} * floats_per_row_;
  }
  // Makes room for the next row. Throws std::bad_alloc.
  void reserve() {
    if (rows_ == slabs_.size() * rows_per_slab_) [[unlikely]]
      add_slab();
  }
  // A new row, all zeros. Throws std::bad_alloc, but not after reserve().
  float* append();
  uint32_t rows() const { return rows_; }
  // How many rows, this one included, lie in one piece from `number` on; some may not exist yet.
  uint32_t contiguous(uint32_t number) const { return rows_per_slab_ - number % rows_per_slab_; }

  uint64_t resident_bytes() const;

 private:
  static constexpr uint32_t kLarge = 1 << 20;  // rows from which on a slab more than needed may be there

  void add_slab();
  // number / rows_per_slab_ by multiplication; exact for 32-bit numbers and divisors from 2 on.
  uint32_t slab_of(uint32_t number) const {
    return static_cast<uint32_t>((static_cast<unsigned __int128>(reciprocal_) * number) >> 64);
  }
  float* base(uint32_t slab) const { return reinterpret_cast<float*>(slabs_[slab].data()); }

  // Constant after construction.
  size_t floats_per_row_;
  size_t slab_bytes_;
  uint32_t rows_per_slab_;
  uint64_t reciprocal_;

  uint32_t rows_ = 0;
  std::vector<Pages> slabs_;
  Pages next_;  // of a large table: the slab after the last one, being made resident
};

}  // namespace embers::storage
