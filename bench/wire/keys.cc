#include "bench/wire/keys.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/errors.h"

namespace embers {

KeyMinibatches::KeyMinibatches(int64_t rows) : keys_(static_cast<size_t>(rows)) {
  std::iota(keys_.begin(), keys_.end(), 0);
  std::shuffle(keys_.begin(), keys_.end(), std::mt19937_64(3));
}

void WireReplies::check(size_t minibatch, std::span<const float> rows) const {
  const std::span<const int64_t> keys = keys_[minibatch];
  if (rows.front() != wire_value(keys.front(), 0) || rows.back() != wire_value(keys.back(), kBenchDim - 1))
    fail(ErrorCode::kInternal, "a reply of the benchmark has other rows than those of minibatch {}",
         minibatch);
}

}  // namespace embers
