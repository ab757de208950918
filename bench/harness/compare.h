#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace embers {

// What one side computed.
struct SideResult {
  std::string side;
  std::span<const float> values;
};

// Fails (kInternal), naming both sides, `what` and the first place that differs, unless both have as many
// numbers and none is further from the other than `farthest` * (1 + its size). NaN differs from everything.
void check_equal(const std::string& what, const SideResult& a, const SideResult& b, double farthest = 0);

// Of the bits, in their order.
uint64_t checksum(std::span<const float> values);

}  // namespace embers
