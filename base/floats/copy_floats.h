#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/floats/stores.h"

namespace embers {

// Rows are short: a call of memcpy takes longer than the copying itself. The floats must not overlap.
void copy_floats(float* to, const float* from, size_t n);

// Copies rows[i], of `dim` floats, to out + i * dim, prefetching the rows that follow, and sets found[i];
// where rows[i] is nullptr, clears found[i] and leaves `out` alone. Returns how many rows were there. Rows of
// `out` are written around the caches only if they consist of 16 bytes each, at multiples of that.
size_t copy_rows(std::span<const float* const> rows, size_t dim, float* out, uint8_t* found,
                 Stores stores = Stores::kCached);
// Copies n floats, which must not overlap; the same holds.
void copy_floats(float* to, const float* from, size_t n, Stores stores);

}  // namespace embers
