#include "storage/memory/row_slabs.h"

#include <algorithm>

namespace embers::storage {
namespace {

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

RowSlabs::RowSlabs(size_t floats_per_row, PageFiller* filler)
    : filler_(filler),
      floats_per_row_(floats_per_row),
      slab_bytes_(std::max(kHugePage, round_up(2 * floats_per_row * sizeof(float), kHugePage))),
      rows_per_slab_(static_cast<uint32_t>(slab_bytes_ / (floats_per_row * sizeof(float)))),
      reciprocal_(UINT64_MAX / rows_per_slab_ + 1) {}

// Mapping waits for a page that is being filled: for a large table as many are mapped as there are.
size_t RowSlabs::slabs_of_pages() const {
  if (ahead() == 0) return 1;
  return mapping_is_free() ? std::clamp(slabs_.size(), kFewSlabs, kFewSlabs + kMostBytes / slab_bytes_)
                           : kFewSlabs;
}

// The first slab keeps small pages: most tables are small, and a huge page is resident from its first row on.
void RowSlabs::add_slab() {
  if (pages_.empty() || used_ == pages_.back().size()) {
    pages_.emplace_back(slab_bytes_ * slabs_of_pages(), !pages_.empty());
    used_ = filled_ = 0;
  }
  Pages& pages = pages_.back();
  if (used_ < filled_) pages.take(used_, slab_bytes_);
  slabs_.push_back(reinterpret_cast<float*>(pages.data() + used_));
  used_ += slab_bytes_;
  filled_ = std::max(filled_, used_);
  if (filler_ == nullptr) return;
  const size_t until = std::min(pages.size(), used_ + ahead() * slab_bytes_);
  for (; filled_ < until; filled_ += slab_bytes_) pages.fill_soon(*filler_, filled_, slab_bytes_);
}

float* RowSlabs::append() {
  reserve();
  return row(rows_++);
}

uint64_t RowSlabs::resident_bytes() const {
  if (slabs_.empty()) return 0;
  const size_t in_first = std::min(rows_, rows_per_slab_) * floats_per_row_ * sizeof(float);
  return round_up(in_first, kSmallPage) + (slabs_.size() - 1) * slab_bytes_ + (filled_ - used_);
}

}  // namespace embers::storage
