#include <cmath>

#include "storage/update_rules/update_formula.h"

namespace embers::storage {
namespace {

// sum += grad^2;  row -= rate * grad / (sqrt(sum) + epsilon)
void adagrad_row(size_t n, float* __restrict row, float* __restrict sum, const float* __restrict grad,
                 float rate, float epsilon) {
  for (size_t i = 0; i < n; ++i) {
    sum[i] += grad[i] * grad[i];
    row[i] -= rate * grad[i] / (std::sqrt(sum[i]) + epsilon);
  }
}

std::vector<UpdateRule::Slot> slots(const Params& p) {
  return {{"accumulator", static_cast<float>(p.at("initial_accumulator_value"))}};
}

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const auto rate = static_cast<float>(step.learning_rate);
  const auto epsilon = static_cast<float>(p.at("epsilon"));
  return row_kernel({1}, [=](size_t n, float* row, float* sum, const float* grad) {
    adagrad_row(n, row, sum, grad, rate, epsilon);
  });
}

}  // namespace

// torch.optim.Adagrad without lr_decay.
UpdateFormula adagrad() {
  return {
      "adagrad",
      {{"learning_rate", 0.01}, {"initial_accumulator_value", 0.1}, {"epsilon", 1e-7}, {"weight_decay", 0}},
      WeightDecay::kCoupled,
      slots,
      kernel,
      nullptr,
      false,
      true};
}

}  // namespace embers::storage
