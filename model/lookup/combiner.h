#pragma once

#include <cstdint>

namespace embers {

// How the rows of one example's ids become one, as tf.nn.embedding_lookup_sparse defines it for weights w,
// which are all 1 where there are none:
//   sum = sum(w row)    mean = sum(w row) / sum(w)    sqrtn = sum(w row) / sqrt(sum(w^2))
// Where TensorFlow would divide by zero, the result and its gradient are zeros.
enum class Combiner : uint8_t { kNone, kSum, kMean, kSqrtN };

// Whether it leaves out ids of weight <= 0, as tf.nn.safe_embedding_lookup_sparse does: unless it is sum.
constexpr bool prunes(Combiner combiner) {
  return combiner == Combiner::kMean || combiner == Combiner::kSqrtN;
}

}  // namespace embers
