#pragma once

#include <cstdint>
#include <span>

#include "base/scratch.h"

namespace embers {

// Sorts `words` by all of their bits, those that are equal from bit `low` on being in order already; `high`
// is above the highest bit set. `other` is of the same size. Returns whichever of the two then holds the
// result; `counts` is scratch.
std::span<uint64_t> radix_sort(std::span<uint64_t> words, std::span<uint64_t> other,
                               Scratch<uint32_t>& counts, unsigned low, unsigned high);

}  // namespace embers
