#include "model/layers/regularizer.h"

namespace embers {

torch::Tensor Regularizer::penalty(const torch::Tensor& x) const {
  torch::Tensor sum = x.new_zeros({});
  if (l1 != 0) sum = sum + l1 * x.abs().sum();
  if (l2 != 0) sum = sum + l2 * x.square().sum();
  return sum;
}

}  // namespace embers
