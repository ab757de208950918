#pragma once

#include <torch/types.h>

#include <vector>

namespace embers {

// DLRM's interaction: inner products of all pairs of an example's fields, [N, F (F-1) / 2], in order (1,0),
// (2,0), (2,1), (3,0), ... The parts are fields [N, D], or several at once [N, any, D], float32; at least
// one. `beside` [N, K], where defined, stands before the products: [N, K + F (F-1) / 2]. Differentiable once.
// In one pass over the fields, where libtorch would multiply each example's matrix by its transpose and pick
// half of the result. Spread over libtorch's threads by examples; results do not depend on their number.
torch::Tensor pair_products(const std::vector<torch::Tensor>& parts, const torch::Tensor& beside = {});
// Of fields in one tensor.
inline torch::Tensor pair_products(const torch::Tensor& fields) {
  return pair_products(std::vector<torch::Tensor>{fields});
}

}  // namespace embers
