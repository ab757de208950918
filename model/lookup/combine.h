#pragma once

#include <cstdint>
#include <span>

namespace embers {

// How the rows of one example's ids become one, as tf.nn.embedding_lookup_sparse defines it for weights w,
// which are all 1 where there are none:
//   sum = sum(w row)    mean = sum(w row) / sum(w)    sqrtn = sum(w row) / sqrt(sum(w^2))
// Where TensorFlow would divide by zero, the result and its gradient are zeros.
enum class Combiner : uint8_t { kNone, kSum, kMean, kSqrtN };

// Which rows each output is made of. Ids with a negative position (kMasked) are left out and count for
// nothing.
struct RaggedPositions {
  std::span<const int32_t> position;  // of each id: a row of the BET
  std::span<const int64_t> offsets;   // example e holds ids [offsets[e], offsets[e+1]); not used by kNone
  std::span<const float> weights{};   // of each id; empty: all 1. Not used by kNone
};

// Rows of the result: one per id for kNone, else one per example.
int64_t combined_rows(Combiner combiner, const RaggedPositions& ids);

// bet[unique x dim] -> out[combined_rows x dim]. An example without ids gives zeros. Ids are added in their
// order, so that the same input gives the same bits.
void combine(Combiner combiner, const RaggedPositions& ids, size_t dim, std::span<const float> bet,
             std::span<float> out);

// Gradient of the above: out_gradient[combined_rows x dim], added to bet_gradient[unique x dim].
void add_combine_gradient(Combiner combiner, const RaggedPositions& ids, size_t dim,
                          std::span<const float> out_gradient, std::span<float> bet_gradient);

}  // namespace embers
