#include "storage/memory/row_nodes.h"

#include <algorithm>
#include <new>

namespace embers::storage {
namespace {

constexpr size_t kHuge = 4 * kHugePage;  // bytes from which on huge pages are not a waste

}  // namespace

void RowNodes::grow(uint32_t nodes) {
  constexpr size_t kMost = UINT32_MAX >> RowBucket::kNodeShift;
  if (size_t{end_} + nodes > kMost) throw std::bad_alloc();
  const size_t least = (size_t{end_} + nodes) * sizeof(RowNode);
  const size_t bytes = std::max({kSmallPage, least, pages_.size() + pages_.size() / 8});
  pages_.grow(bytes, bytes >= kHuge);
  data_ = reinterpret_cast<Place*>(pages_.data());
  room_ = static_cast<uint32_t>(std::min(pages_.size() / sizeof(RowNode), kMost));
}

// Pages that no node was ever taken from are not resident yet.
uint64_t RowNodes::resident_bytes() const {
  const size_t unit = pages_.size() >= kHuge ? kHugePage : kSmallPage;
  return std::min(pages_.size(), (end_ * sizeof(RowNode) + unit - 1) / unit * unit);
}

}  // namespace embers::storage
