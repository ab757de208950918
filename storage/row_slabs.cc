#include "storage/row_slabs.h"

#include <algorithm>

namespace embers::storage {
namespace {

constexpr size_t kPage = 4096;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

RowSlabs::RowSlabs(size_t floats_per_row)
    : floats_per_row_(floats_per_row),
      slab_bytes_(std::max(kHugePage, round_up(2 * floats_per_row * sizeof(float), kHugePage))),
      rows_per_slab_(static_cast<uint32_t>(slab_bytes_ / (floats_per_row * sizeof(float)))),
      reciprocal_(UINT64_MAX / rows_per_slab_ + 1) {}

void RowSlabs::reserve() {
  // The first slab keeps small pages: most tables are small, and a huge page is resident from its first row
  // on.
  if (rows_ == slabs_.size() * rows_per_slab_) slabs_.emplace_back(slab_bytes_, !slabs_.empty());
}

float* RowSlabs::append() {
  reserve();
  return row(rows_++);
}

uint64_t RowSlabs::resident_bytes() const {
  if (slabs_.empty()) return 0;
  const size_t in_first = std::min(rows_, rows_per_slab_) * floats_per_row_ * sizeof(float);
  return round_up(in_first, kPage) + (slabs_.size() - 1) * slab_bytes_;
}

}  // namespace embers::storage
