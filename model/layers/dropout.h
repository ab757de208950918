#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "model/layers/batch.h"

namespace embers {

// Dropout whose mask is a function of (seed, minibatch, layer) only: whichever worker computes a minibatch,
// whenever and however often, it drops the same elements. Scales by 1 / (1 - rate) in training; is the
// identity in evaluation.
class DropoutImpl : public torch::nn::Module {
 public:
  // `layer` tells a model's dropout layers apart. kInvalid unless 0 <= rate < 1.
  DropoutImpl(double rate, uint64_t seed, uint64_t layer);
  torch::Tensor forward(const torch::Tensor& input, const Batch& batch);

 private:
  double rate_;
  uint64_t seed_, layer_;
};
TORCH_MODULE(Dropout);

}  // namespace embers
