#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "storage/memory/pages.h"

namespace embers::storage {

// Rows of a fixed number of floats, numbered from 0 in order of creation, in slabs that never move: a pointer
// to a row stays valid, and growth copies nothing. Rows of one slab are contiguous without padding, so that a
// scan shows them as they lie.
//
// *Thread safety*: none.
class RowSlabs {
 public:
  // `filler` must outlive it; without one, pages are made when they are touched.
  explicit RowSlabs(size_t floats_per_row, PageFiller* filler = nullptr);

  float* row(uint32_t number) const {
    const uint32_t slab = slab_of(number);
    return slabs_[slab] + size_t{number - slab * rows_per_slab_} * floats_per_row_;
  }
  // Makes room for the next row. Throws std::bad_alloc.
  void reserve() {
    if (rows_ == slabs_.size() * rows_per_slab_) [[unlikely]]
      add_slab();
  }
  // A new row, all zeros. Throws std::bad_alloc, but not after reserve().
  float* append();
  uint32_t rows() const { return rows_; }
  size_t bytes() const { return slabs_.size() * slab_bytes_; }
  // How many rows, this one included, lie in one piece from `number` on; some may not exist yet.
  uint32_t contiguous(uint32_t number) const { return rows_per_slab_ - number % rows_per_slab_; }

  uint64_t resident_bytes() const;

 private:
  // Slabs that are made resident before they are needed: one for each few that there are.
  static constexpr size_t kMostAhead = 4, kSlabsForOneAhead = 8;
  static constexpr size_t kFewSlabs = 16, kMostBytes = size_t{1} << 30;

  void add_slab();
  size_t slabs_of_pages() const;
  size_t ahead() const { return std::min(slabs_.size() / kSlabsForOneAhead, kMostAhead); }
  // number / rows_per_slab_ by multiplication; exact for 32-bit numbers and divisors from 2 on.
  uint32_t slab_of(uint32_t number) const {
    return static_cast<uint32_t>((static_cast<unsigned __int128>(reciprocal_) * number) >> 64);
  }

  // Constant after construction.
  PageFiller* filler_;
  size_t floats_per_row_;
  size_t slab_bytes_;
  uint32_t rows_per_slab_;
  uint64_t reciprocal_;

  uint32_t rows_ = 0;
  std::vector<float*> slabs_;
  std::vector<Pages> pages_;  // of the slabs, in order, and after them of some slabs to come
  size_t used_ = 0;           // bytes of the last pages that are slabs
  size_t filled_ = 0;         // bytes of the last pages that are slabs or were asked to be filled
};

}  // namespace embers::storage
