#include "storage/rows/key_slice.h"

#include <algorithm>

namespace embers::storage {

KeysView key_slice(KeysView keys, size_t begin, size_t n, std::vector<uint32_t>& ends) {
  if (keys.kind == KeyKind::kInt64) return {keys.kind, keys.ints.subspan(begin, n), {}, {}};
  const uint32_t offset = begin == 0 ? 0 : keys.ends[begin - 1];
  const auto part = keys.ends.subspan(begin, n);
  ends.resize(n);
  std::transform(part.begin(), part.end(), ends.begin(), [&](uint32_t end) { return end - offset; });
  return {keys.kind, {}, ends, keys.bytes.substr(offset, n == 0 ? 0 : ends.back())};
}

}  // namespace embers::storage
