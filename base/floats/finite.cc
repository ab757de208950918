#include "base/floats/finite.h"

#include <bit>
#include <cstdint>

#include "base/floats/instruction_sets.h"

namespace embers {
namespace {

// A plain loop over the bits, which compilers turn into vector instructions: without their sign, floats are
// in the order of their bits, with NaN after infinity.
EMBERS_INSTRUCTION_SETS bool below(int32_t least, const float* values, size_t n) {
  uint32_t bad = 0;
  for (size_t i = 0; i < n; ++i) bad |= (std::bit_cast<int32_t>(values[i]) & 0x7fffffff) >= least;
  return bad == 0;
}

}  // namespace

bool all_below(float limit, std::span<const float> values) {
  return below(std::bit_cast<int32_t>(limit), values.data(), values.size());
}

}  // namespace embers
