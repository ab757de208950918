#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/philox.h"

namespace embers::storage {

// Philox blocks that are computed at once: a loop over many of them takes a quarter of the time of one after
// another.
struct PhiloxBlocks {
  static constexpr size_t kMost = 64;

  // [i] is block i's: before, its counter; afterwards, undefined.
  alignas(64) std::array<uint32_t, kMost> word0, word1, word2, word3;

  // words[4 * i + k] becomes random word k of block i, for the first `blocks`: the same as philox()'s.
  void draw(size_t blocks, PhiloxKey key, uint32_t* words);
};

}  // namespace embers::storage
