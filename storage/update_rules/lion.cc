#include "storage/update_rules/update_formula.h"

namespace embers::storage {
namespace {

struct Factors {
  float one_minus_beta_1, one_minus_beta_2, rate;
};

// c = m + (grad - m)(1 - beta_1);  row -= rate * sign(c);  m += (grad - m)(1 - beta_2)
void lion_row(size_t n, float* __restrict row, float* __restrict m, const float* __restrict grad, Factors f) {
  for (size_t i = 0; i < n; ++i) {
    const float difference = grad[i] - m[i];
    const float c = m[i] + difference * f.one_minus_beta_1;
    row[i] -= f.rate * static_cast<float>((c > 0) - (c < 0));
    m[i] += difference * f.one_minus_beta_2;
  }
}

std::vector<UpdateRule::Slot> slots(const Params&) { return {{"m", 0}}; }

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const Factors f{static_cast<float>(1 - p.at("beta_1")), static_cast<float>(1 - p.at("beta_2")),
                  static_cast<float>(step.learning_rate)};
  return row_kernel({1},
                    [f](size_t n, float* row, float* m, const float* grad) { lion_row(n, row, m, grad, f); });
}

}  // namespace

// Chen et al., Symbolic Discovery of Optimization Algorithms (2023), Algorithm 2, with Keras's defaults.
UpdateFormula lion() {
  return {"lion",
          {{"learning_rate", 0.001}, {"beta_1", 0.9}, {"beta_2", 0.99}, {"weight_decay", 0}},
          WeightDecay::kDecoupled,
          slots,
          kernel};
}

}  // namespace embers::storage
