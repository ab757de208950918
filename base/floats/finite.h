#pragma once

#include <limits>
#include <span>

namespace embers {

// Gradients of this magnitude or more count as infinite, because their squares, which optimizers keep, would
// be.
inline constexpr float kInfiniteGradient = 9.223372e18F;  // 2^63

// Whether every value is a number of a magnitude below `limit`.
bool all_below(float limit, std::span<const float> values);

inline bool all_finite(std::span<const float> values) {
  return all_below(std::numeric_limits<float>::infinity(), values);
}

}  // namespace embers
