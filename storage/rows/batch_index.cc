#include "storage/rows/batch_index.h"

#include <algorithm>
#include <bit>

namespace embers::storage {
namespace {

bool equal(KeysView keys, size_t a, size_t b) {
  return keys.kind == KeyKind::kInt64 ? keys.ints[a] == keys.ints[b] : keys.bytes_at(a) == keys.bytes_at(b);
}

}  // namespace

void BatchIndex::assign(KeysView keys) {
  first_.resize(keys.size());
  cells_.assign(std::bit_ceil(keys.size() * 2 + 1), 0);
  const uint64_t mask = cells_.size() - 1;
  for (size_t i = 0; i < keys.size(); ++i) {
    uint64_t at = hash_key(keys, i) & mask;
    while (cells_[at] != 0 && !equal(keys, cells_[at] - 1, i)) at = (at + 1) & mask;
    if (cells_[at] == 0) cells_[at] = static_cast<uint32_t>(i) + 1;
    first_[i] = cells_[at] - 1;
  }
}

std::vector<float> BatchIndex::last_of_each(KeysView keys, std::span<const float> values, size_t width) {
  assign(keys);
  std::vector<float> out(values.begin(), values.end());
  for (size_t i = 0; i < keys.size(); ++i)
    if (first_[i] != i) std::copy_n(&out[i * width], width, &out[first_[i] * width]);
  for (size_t i = 0; i < keys.size(); ++i) std::copy_n(&out[first_[i] * width], width, &out[i * width]);
  return out;
}

}  // namespace embers::storage
