#pragma once

#include <torch/types.h>

#include <vector>

namespace embers {

// An example's fields, and the second order of a factorization machine over them (Rendle 2010).
struct SecondOrder {
  torch::Tensor fields;  // [N, F, D]
  torch::Tensor sum;     // [N, 1]: the inner products of all pairs of an example's fields, added up
};

// parts: fields [N, D], or several at once [N, any, D], float32. numeric [N, K] and factors [K, D]: a numeric
// feature's field is its value times its factors; these fields come last, and are left out where `factors` is
// undefined. kInvalid without any fields, or where sizes differ. No gradient flows to `numeric`.
// Differentiable once. One pass over the fields, and one over their gradients, where libtorch takes a dozen.
// Spread over libtorch's threads by examples; results do not depend on their number.
SecondOrder second_order(const std::vector<torch::Tensor>& parts, const torch::Tensor& numeric = {},
                         const torch::Tensor& factors = {});

}  // namespace embers
