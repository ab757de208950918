#include "storage/copy_floats.h"

#include <cstring>

#include "schema/instruction_sets.h"

namespace embers::storage {

EMBERS_INSTRUCTION_SETS void copy_floats(float* to, const float* from, size_t n) {
  constexpr size_t kLine = 64 / sizeof(float);  // what rows are mostly made of
  for (; n >= kLine; n -= kLine, to += kLine, from += kLine) std::memcpy(to, from, kLine * sizeof(float));
  for (size_t k = 0; k < n; ++k) to[k] = from[k];
}

}  // namespace embers::storage
