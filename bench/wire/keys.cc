#include "bench/wire/keys.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <unordered_set>

#include "base/errors.h"
#include "bench/harness/bench.h"

namespace embers {
KeyMinibatches::KeyMinibatches(int64_t rows) : keys_(static_cast<size_t>(rows)) {
  std::iota(keys_.begin(), keys_.end(), 0);
  std::shuffle(keys_.begin(), keys_.end(), std::mt19937_64(3));
}

KeyMinibatches KeyMinibatches::zipf(int64_t rows) {
  constexpr size_t kMinibatches = 256;
  if (rows < 4 * static_cast<int64_t>(kBenchKeys))
    fail(ErrorCode::kInvalid, "{} rows are too few for minibatches of {} keys", rows, kBenchKeys);
  KeyMinibatches minibatches;
  RandomIds random(rows, true, 5);
  for (size_t m = 0; m < kMinibatches; ++m) {
    std::unordered_set<int64_t> seen;
    while (seen.size() < kBenchKeys)
      if (const int64_t key = random.id(); seen.insert(key).second) minibatches.keys_.push_back(key);
  }
  return minibatches;
}

void WireReplies::check(size_t minibatch, std::span<const float> rows) const {
  const std::span<const int64_t> keys = keys_[minibatch];
  if (rows.front() != wire_value(keys.front(), 0) || rows.back() != wire_value(keys.back(), kBenchDim - 1))
    fail(ErrorCode::kInternal, "a reply of the benchmark has other rows than those of minibatch {}",
         minibatch);
}

double sum_of(std::span<const float> floats) {
  std::array<float, 8> sums{};
  for (size_t i = 0; i + sums.size() <= floats.size(); i += sums.size())
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += floats[i + k];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace embers
