#include "storage/rows/key_column.h"

#include <algorithm>
#include <limits>

namespace embers::storage {

void KeyColumn::push_back_from(KeysView keys, size_t i) {
  if (kind_ == KeyKind::kInt64) {
    ints_.push_back(keys.ints[i]);
    return;
  }
  bytes_.append(keys.bytes_at(i));
  ends_.push_back(bytes_.size());
}

KeysView KeyColumn::view(uint32_t begin, size_t n) {
  if (kind_ == KeyKind::kInt64) return {kind_, std::span(ints_).subspan(begin, n), {}, {}};
  const uint64_t offset = begin_of(begin);
  const auto first = ends_.begin() + begin;
  const auto last = std::upper_bound(first, first + static_cast<ptrdiff_t>(n),
                                     offset + std::numeric_limits<uint32_t>::max());
  view_ends_.resize(static_cast<size_t>(last - first));
  std::transform(first, last, view_ends_.begin(),
                 [&](uint64_t end) { return static_cast<uint32_t>(end - offset); });
  const size_t size = view_ends_.empty() ? 0 : view_ends_.back();
  return {kind_, {}, view_ends_, std::string_view(bytes_).substr(offset, size)};
}

uint64_t KeyColumn::resident_bytes() const {
  return ints_.capacity() * sizeof(int64_t) + ends_.capacity() * sizeof(uint64_t) + bytes_.capacity() +
         view_ends_.capacity() * sizeof(uint32_t);
}

}  // namespace embers::storage
