#pragma once

#include <algorithm>
#include <cstddef>

// For functions that do nothing but prefetch: the compiler takes those that it does not inline right away for
// functions without effect, and drops their calls.
#define EMBERS_PREFETCHES [[gnu::always_inline]] inline

namespace embers {

// Asks for a cache line, into the second-level cache. From there it comes in a few cycles, and many more
// lines can be on their way there than to the first level, which has few buffers for what it misses.
EMBERS_PREFETCHES void prefetch_line(const void* at) { __builtin_prefetch(at, 0, 2); }

constexpr size_t kLineFloats = 16;

// Between asking for a line and using it, where each key has one: keys.
constexpr size_t kLinesAhead = 64;

// Rows of so many floats between asking for one and using it: those of about 128 lines, at most 32. Fewer
// than eight do not suffice, since the work on each is long.
constexpr size_t rows_ahead(size_t floats) {
  const size_t lines = (floats + kLineFloats - 1) / kLineFloats;
  return std::clamp(2 * kLinesAhead / std::max(lines, size_t{1}), size_t{8}, kLinesAhead / 2);
}

// Prefetches the cache lines of a row, at most the first sixteen: by then the processor's own prefetcher has
// caught on.
EMBERS_PREFETCHES void prefetch_row(const float* row, size_t floats) {
  for (size_t f = 0; f < std::min(floats, 16 * kLineFloats); f += kLineFloats) prefetch_line(row + f);
}

}  // namespace embers
