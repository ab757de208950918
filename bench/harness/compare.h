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

// The same where numbers may be of any size: none is further from the other than `farthest` * (the root mean
// square of a's numbers + its own size).
void check_close(const std::string& what, const SideResult& a, const SideResult& b, double farthest);

// Rows that one side computed, each once, in any order; values[rows.size() x dim].
struct SideRows {
  std::string side;
  std::span<const int64_t> rows;
  std::span<const float> values;
};

// The same for rows: both sides must have the same ones.
void check_close(const std::string& what, const SideRows& a, const SideRows& b, double farthest);

// Of the bits, in their order.
uint64_t checksum(std::span<const float> values);

}  // namespace embers
