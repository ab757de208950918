#pragma once

#include "model/lookup/lookup_pass.h"

namespace embers {

// Gradient of the weights (sp_weights) of a call, as tf.nn.embedding_lookup_sparse has one: through the
// products and through the divisor of mean and sqrtn. `pass` is what the call left, `ids`, with weights, and
// `options` are those it was given; out_gradient: bags x dim; gradient: one number for each of the ids.
// Pruned ids, and those of bags whose divisor is 0, have 0. kInvalid for gradients of another size.
void weight_gradient(const LookupPass& pass, const SparseIds& ids, const LookupOptions& options,
                     std::span<const float> out_gradient, std::span<float> gradient);

}  // namespace embers
