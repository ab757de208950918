#pragma once

#include <string>
#include <vector>

#include "model/forward.h"

namespace embers {

// The scalar loss of a batch. kInvalid naming the model for what its code throws or a loss that is not a
// scalar, and naming the minibatch when it is not finite.
torch::Tensor run_loss(Model& model, const std::string& name, const torch::Tensor& output, const Batch& batch,
                       const data::Minibatch& minibatch);

// Backward pass from `loss` into the leaves of the rows and the model's parameters. A loss that depends on
// none of them leaves all gradients undefined.
void run_backward(const std::string& name, const torch::Tensor& loss);

// Gradients of the embedding tables that got any, keys unique, in order of table id; gradients of late calls
// are added in call order. Call once: it takes the gradients of the leaves.
std::vector<IndexedSlices> indexed_slices(MinibatchRows& rows);

}  // namespace embers
