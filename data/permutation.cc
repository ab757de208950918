#include "data/permutation.h"

#include <algorithm>
#include <numeric>

#include "data/random.h"

namespace embers::data {
namespace {

// 0 .. size-1 in the order that `seed` gives (Fisher and Yates).
std::vector<uint32_t> order(uint32_t size, uint64_t seed, bool shuffled) {
  std::vector<uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  if (!shuffled) return order;
  Random random(seed);
  for (uint32_t i = size; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace

Permutation::Permutation(uint64_t seed, uint64_t epoch, std::span<const uint32_t> block_records,
                         bool shuffled)
    : sizes_(block_records.begin(), block_records.end()),
      blocks_(order(static_cast<uint32_t>(block_records.size()), mix(seed, epoch), shuffled)),
      starts_(1, 0),
      seed_(mix(seed, epoch)),
      shuffled_(shuffled) {
  for (const uint32_t block : blocks_) starts_.push_back(starts_.back() + sizes_[block]);
}

Permutation::Place Permutation::at(uint64_t position) const {
  const auto next = std::upper_bound(starts_.begin(), starts_.end(), position);
  const auto index = static_cast<size_t>(next - starts_.begin()) - 1;
  return {blocks_[index], position - starts_[index]};
}

std::vector<uint32_t> Permutation::records_of(uint32_t block) const {
  return order(sizes_[block], mix(seed_, block), shuffled_);
}

}  // namespace embers::data
