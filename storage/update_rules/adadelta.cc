#include <cmath>

#include "storage/update_rules/update_formula.h"

namespace embers::storage {
namespace {

struct Factors {
  float rate, one_minus_rho, epsilon;
};

// square += (grad^2 - square)(1 - rho);  change = sqrt(delta + epsilon) / sqrt(square + epsilon) * grad
// delta += (change^2 - delta)(1 - rho);  row -= rate * change
void adadelta_row(size_t n, float* __restrict row, float* __restrict square, float* __restrict delta,
                  const float* __restrict grad, Factors f) {
  for (size_t i = 0; i < n; ++i) {
    square[i] += (grad[i] * grad[i] - square[i]) * f.one_minus_rho;
    const float change = std::sqrt(delta[i] + f.epsilon) / std::sqrt(square[i] + f.epsilon) * grad[i];
    delta[i] += (change * change - delta[i]) * f.one_minus_rho;
    row[i] -= f.rate * change;
  }
}

std::vector<UpdateRule::Slot> slots(const Params&) {
  return {{"accumulated_grad", 0}, {"accumulated_delta_var", 0}};
}

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const Factors f{static_cast<float>(step.learning_rate), static_cast<float>(1 - p.at("rho")),
                  static_cast<float>(p.at("epsilon"))};
  return row_kernel({2}, [f](size_t n, float* row, float* slots, const float* grad) {
    adadelta_row(n, row, slots, slots + n, grad, f);
  });
}

}  // namespace

// torch.optim.Adadelta.
UpdateFormula adadelta() {
  return {"adadelta",
          {{"learning_rate", 0.001}, {"rho", 0.95}, {"epsilon", 1e-7}, {"weight_decay", 0}},
          WeightDecay::kCoupled,
          slots,
          kernel};
}

}  // namespace embers::storage
