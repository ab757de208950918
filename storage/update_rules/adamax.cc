#include <algorithm>
#include <cmath>

#include "storage/update_rules/update_formula.h"

namespace embers::storage {
namespace {

struct Factors {
  float one_minus_beta_1, beta_2, epsilon, rate;
};

// m += (grad - m)(1 - beta_1);  u = max(beta_2 * u, |grad| + epsilon);  row -= rate * m / u
// where rate includes the bias correction.
void adamax_row(size_t n, float* __restrict row, float* __restrict m, float* __restrict u,
                const float* __restrict grad, Factors f) {
  for (size_t i = 0; i < n; ++i) {
    m[i] += (grad[i] - m[i]) * f.one_minus_beta_1;
    u[i] = std::max(f.beta_2 * u[i], std::abs(grad[i]) + f.epsilon);
    row[i] -= f.rate * m[i] / u[i];
  }
}

std::vector<UpdateRule::Slot> slots(const Params&) { return {{"m", 0}, {"u", 0}}; }

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const double beta_1 = p.at("beta_1");
  const Factors f{static_cast<float>(1 - beta_1), static_cast<float>(p.at("beta_2")),
                  static_cast<float>(p.at("epsilon")),
                  static_cast<float>(step.learning_rate / (1 - power(beta_1, step.step)))};
  return row_kernel({2}, [f](size_t n, float* row, float* slots, const float* grad) {
    adamax_row(n, row, slots, slots + n, grad, f);
  });
}

}  // namespace

// torch.optim.Adamax.
UpdateFormula adamax() {
  return {
      "adamax",
      {{"learning_rate", 0.001}, {"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}, {"weight_decay", 0}},
      WeightDecay::kCoupled,
      slots,
      kernel};
}

}  // namespace embers::storage
