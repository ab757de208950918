#pragma once

#include <torch/types.h>

namespace embers {

// DLRM's interaction: fields [N, F, D], float32 -> inner products of all pairs of an example's fields,
// [N, F (F-1) / 2], in order (1,0), (2,0), (2,1), (3,0), ... Differentiable once. In one pass over the
// fields, where libtorch would multiply each example's matrix by its transpose and pick half of the result.
// Spread over libtorch's threads by examples; results do not depend on their number.
torch::Tensor pair_products(const torch::Tensor& fields);

}  // namespace embers
