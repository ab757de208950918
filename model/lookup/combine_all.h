#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "model/lookup/combine.h"

namespace embers {

// One forward and backward pass: what its combinations share. Gone when the pass is over.
struct CombinePass {
  double seconds = 0;  // spent on them and their gradients
};

// combine() for autograd, of any number of calls at once: one node, one backward pass over all of them.
struct CombinePart {
  size_t bet;  // which of the BETs it reads
  Combiner combiner;
  RaggedPositions ids;
};

// bets[i]: [unique, dim]; result: of each part [combined_rows, dim]. The positions must be there as long as
// `pass` is: a backward pass after that is kInvalid. Calls are spread over libtorch's threads; results do not
// depend on their number.
std::vector<torch::Tensor> combine_all(const std::vector<torch::Tensor>& bets, std::vector<CombinePart> parts,
                                       std::weak_ptr<CombinePass> pass);

}  // namespace embers
