#include <cmath>

#include "storage/update_rules/update_formula.h"

namespace embers::storage {
namespace {

// sum += mean(grad^2);  row -= rate * grad / (sqrt(sum) + epsilon), sum being one number for the whole row.
void rowwise_adagrad_row(size_t n, float* __restrict row, float* __restrict sum, const float* __restrict grad,
                         float rate, float epsilon) {
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += double{grad[i]} * grad[i];
  *sum += static_cast<float>(squares / static_cast<double>(n));
  const float factor = rate / (std::sqrt(*sum) + epsilon);
  for (size_t i = 0; i < n; ++i) row[i] -= factor * grad[i];
}

std::vector<UpdateRule::Slot> slots(const Params& p) {
  return {{"accumulator", static_cast<float>(p.at("initial_accumulator_value")), true}};
}

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const auto rate = static_cast<float>(step.learning_rate);
  const auto epsilon = static_cast<float>(p.at("epsilon"));
  return row_kernel({0, 1}, [=](size_t n, float* row, float* sum, const float* grad) {
    rowwise_adagrad_row(n, row, sum, grad, rate, epsilon);
  });
}

}  // namespace

// torchrec.optim.RowWiseAdagrad (FBGEMM's EXACT_ROWWISE_ADAGRAD), with its defaults.
UpdateFormula rowwise_adagrad() {
  return {
      "rowwise_adagrad",
      {{"learning_rate", 0.01}, {"initial_accumulator_value", 0}, {"epsilon", 1e-10}, {"weight_decay", 0}},
      WeightDecay::kCoupled,
      slots,
      kernel,
      nullptr,
      true,
      true};
}

}  // namespace embers::storage
