#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace embers {

// Rows are short: a call of memcpy takes longer than copying one does. The floats must not overlap.
void copy_floats(float* to, const float* from, size_t n);

// Copies the i-th of rows of `dim` floats to out + i * dim, prefetching rows that follow, and sets found[i];
// where there is nullptr instead of a row, clears found[i] and leaves `out` alone. Returns how many were
// there.
size_t copy_rows(std::span<const float* const> rows, size_t dim, float* out, uint8_t* found);

}  // namespace embers
