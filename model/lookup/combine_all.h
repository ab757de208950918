#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "model/lookup/combine.h"

namespace embers {

// One forward and backward pass: what its combinations share. Gone when the pass is over.
struct CombinePass {
  CombineMemory& memory;
  double seconds = 0;  // spent on combinations and their gradients
  // Gradients of BETs, kept so that sending one away needs no copy: see take_gradient().
  std::vector<std::shared_ptr<FloatBuffer>> gradients{};
};

// Combination for autograd: one node, one backward pass over all calls. bets[i]: [unique, dim]; the result of
// each call: [combined_rows, dim]. weights[i], where defined, are the weights of call i as a tensor, to which
// its gradient flows; the call's own weights are its values. Positions and BETs must be there as long as
// `pass` is: a backward pass after that is kInvalid. may_overwrite: see Combination::Bet; empty: none. Calls
// are spread by at::parallel_for, which has threads where code is compiled with OpenMP; results do not depend
// on their number.
std::vector<torch::Tensor> combine_all(const std::vector<torch::Tensor>& bets, std::vector<CombineCall> calls,
                                       const std::shared_ptr<CombinePass>& pass,
                                       const std::vector<torch::Tensor>& weights = {},
                                       const std::vector<bool>& may_overwrite = {});

// The values of a BET's gradient, which must not be used afterwards: its own memory if combine_all() made it
// and nothing else took its place, else a copy.
FloatBuffer take_gradient(const torch::Tensor& gradient, CombinePass& pass);

}  // namespace embers
