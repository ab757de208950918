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

void RowSlabs::add_slab() {
  // The first slab keeps small pages: most tables are small, and a huge page is resident from its first row
  // on.
  if (next_.data() == nullptr) next_ = Pages(slab_bytes_, !slabs_.empty());
  slabs_.push_back(std::move(next_));
  if (rows_ < kLarge) return;
  next_ = Pages(slab_bytes_, true);
  next_.fill_soon(0);
}

float* RowSlabs::append() {
  reserve();
  return row(rows_++);
}

uint64_t RowSlabs::resident_bytes() const {
  if (slabs_.empty()) return 0;
  const size_t in_first = std::min(rows_, rows_per_slab_) * floats_per_row_ * sizeof(float);
  return round_up(in_first, kPage) + (slabs_.size() - 1) * slab_bytes_ + next_.size();
}

}  // namespace embers::storage
