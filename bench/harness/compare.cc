#include "bench/harness/compare.h"

#include <bit>
#include <cmath>

#include "base/errors.h"

namespace embers {

void check_equal(const std::string& what, const SideResult& a, const SideResult& b, double farthest) {
  if (a.values.size() != b.values.size())
    fail(ErrorCode::kInternal, "{}: {} has {} numbers, {} has {}", what, a.side, a.values.size(), b.side,
         b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double x = a.values[i], y = b.values[i];
    if (!(std::abs(x - y) <= farthest * (1 + std::abs(x))))
      fail(ErrorCode::kInternal, "{}: number {} is {} with {}, but {} with {}", what, i, x, a.side, y,
           b.side);
  }
}

uint64_t checksum(std::span<const float> values) {
  uint64_t sum = 0;
  for (const float value : values) sum = (sum ^ std::bit_cast<uint32_t>(value)) * 0x9E3779B97F4A7C15 + 1;
  return sum;
}

}  // namespace embers
