#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/lookup/kernels/id_words.h"

namespace embers {

// The unique rows of sorted ids. Each array has room for as many as there are ids; `begin` for one more.
struct UniqueRows {
  uint32_t* begin;           // where each begins among the ids, and where the last one ends
  int64_t* rows;             // their numbers
  IdShare* shares;           // of the ids, in their order
  uint32_t *clipped, *kept;  // which of the unique rows were clipped, and which not; null: not wanted
  size_t count = 0, clipped_count = 0;

  // Shares are those of ids by number, `of_ids`; or, if that is null, the scales of bags, where null stands
  // for 1.
  void find(std::span<const uint64_t> sorted, WordLayout layout, const IdShare* of_ids, const float* scale);
};

}  // namespace embers
