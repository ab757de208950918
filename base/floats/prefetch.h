#pragma once

#include <algorithm>
#include <cstddef>

// For functions that do nothing but prefetch: the compiler takes those that it does not inline right away for
// functions without effect, and drops their calls.
#define EMBERS_PREFETCHES [[gnu::always_inline]] inline

namespace embers {

// Rows between prefetching one and using it.
constexpr size_t kRowsAhead = 16;

// Prefetches the cache lines of a row, at most the first sixteen: by then the processor's own prefetcher has
// caught on.
EMBERS_PREFETCHES void prefetch_row(const float* row, size_t floats) {
  constexpr size_t kLine = 64 / sizeof(float);
  for (size_t f = 0; f < std::min(floats, 16 * kLine); f += kLine) __builtin_prefetch(row + f);
}

}  // namespace embers
