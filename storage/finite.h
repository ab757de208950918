#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <span>

namespace embers::storage {

// Gradients from here on count as infinite: their squares, which optimizers keep, would be.
inline constexpr float kInfiniteGradient = 9.223372e18F;  // 2^63

// Whether every value is a number of a magnitude below `limit`. A plain loop over the bits, which compilers
// turn into vector instructions: floats without their sign are in the order of their bits, NaN behind
// infinity.
inline bool all_below(float limit, std::span<const float> values) {
  const auto least = std::bit_cast<int32_t>(limit);
  uint32_t bad = 0;
  for (const float x : values) bad |= (std::bit_cast<int32_t>(x) & 0x7fffffff) >= least;
  return bad == 0;
}

inline bool all_finite(std::span<const float> values) {
  return all_below(std::numeric_limits<float>::infinity(), values);
}

}  // namespace embers::storage
