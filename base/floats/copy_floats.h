#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/floats/stores.h"

namespace embers {

// Most rows are short: a call of memcpy would take longer than the copying itself. The floats must not
// overlap.
void copy_floats(float* to, const float* from, size_t n);

// Copies rows[i], of `dim` floats, to out + i * dim, prefetching the rows that follow, and sets found[i];
// where rows[i] is nullptr, clears found[i] and leaves `out` alone. Returns how many rows were there. With a
// `choice`, rows of a multiple of 16 bytes may be written around the caches.
size_t copy_rows(std::span<const float* const> rows, size_t dim, float* out, uint8_t* found,
                 StoreChoice* choice = nullptr);
size_t copy_rows(std::span<const float* const> rows, size_t dim, float* out, uint8_t* found, Stores stores);
// Copies many floats, which must not overlap, around the caches if `choice` says so; it may be null.
void copy_many_floats(float* to, const float* from, size_t n, StoreChoice* choice);

}  // namespace embers
