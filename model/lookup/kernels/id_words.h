#pragma once

#include <cstdint>
#include <span>

#include "base/scratch.h"
#include "model/lookup/kernels/radix_sort.h"
#include "model/lookup/kernels/row_kernels.h"

namespace embers {

// An id as one word, to be sorted: its row in the high bits, then whether that was clipped, which is the same
// for all ids of a row, and in the low bits the number of its bag; or its own, where ids have weights.
struct WordLayout {
  unsigned low;  // number of low bits
  unsigned shift() const { return low + 1; }
  uint64_t low_bits() const { return (uint64_t{1} << low) - 1; }
};

// Ids of a ragged batch, with what is known of them.
template <class Row>
struct RaggedRows {
  std::span<const Row> row;         // of each id
  std::span<const int64_t> offset;  // bag b has ids [offset[b], offset[b+1]); empty: see width
  int64_t width;                    // without offsets: bag b has ids [b * width, (b+1) * width)
  const float* weight;              // of each id; null: 1
  const float* scale;               // of each bag; null: 1
  const float* norm;                // of each id, 0 where its row was not clipped; null: none was
};

// Writes the word of each id, and counts it for `sort`. shares[i], where ids have weights, becomes that of id
// i. `begins` is scratch.
void pack_ids(const RaggedRows<int64_t>& ids, WordLayout layout, const RadixSort& sort,
              std::span<uint64_t> words, IdShare* shares, Scratch<uint32_t>& begins);
void pack_ids(const RaggedRows<int32_t>& ids, WordLayout layout, const RadixSort& sort,
              std::span<uint64_t> words, IdShare* shares, Scratch<uint32_t>& begins);

}  // namespace embers
