#include <algorithm>
#include <cmath>

#include "storage/update_rules/update_formula.h"

namespace embers::storage {
namespace {

// The momentum schedule: u(t) = beta_1 (1 - 0.96^t / 2), and the product of u(1) .. u(t).
struct Momentum {
  double now, next, product, next_product;
};
Momentum momentum_at(double beta_1, uint64_t t) {
  constexpr double kDecay = 0.96;
  constexpr uint64_t kNearlyConstant = 1000;  // from here on 0.96^t / 2 is lost when subtracted from 1
  const auto u = [&](uint64_t i) { return beta_1 * (1 - 0.5 * power(kDecay, i)); };
  double product = t > kNearlyConstant ? power(beta_1, t - kNearlyConstant) : 1, decay = 1;
  for (uint64_t i = std::min(t, kNearlyConstant); i > 0; --i)
    product *= beta_1 * (1 - 0.5 * (decay *= kDecay));
  return {u(t), u(t + 1), product, product * u(t + 1)};
}

struct Factors {
  float one_minus_beta_1, one_minus_beta_2, epsilon;
  float m_rate, grad_rate;  // they include the learning rate
  float v_correction;       // 1 / (1 - beta_2^t)
};

// m += (grad - m)(1 - beta_1);  v += (grad^2 - v)(1 - beta_2)
// row -= (m_rate * m + grad_rate * grad) / (sqrt(v * v_correction) + epsilon)
void nadam_row(size_t n, float* __restrict row, float* __restrict m, float* __restrict v,
               const float* __restrict grad, Factors f) {
  for (size_t i = 0; i < n; ++i) {
    m[i] += (grad[i] - m[i]) * f.one_minus_beta_1;
    v[i] += (grad[i] * grad[i] - v[i]) * f.one_minus_beta_2;
    row[i] -= (f.m_rate * m[i] + f.grad_rate * grad[i]) / (std::sqrt(v[i] * f.v_correction) + f.epsilon);
  }
}

std::vector<UpdateRule::Slot> slots(const Params&) { return {{"m", 0}, {"v", 0}}; }

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const Momentum u = momentum_at(p.at("beta_1"), step.step);
  const double beta_2 = p.at("beta_2");
  const Factors f{static_cast<float>(1 - p.at("beta_1")),
                  static_cast<float>(1 - beta_2),
                  static_cast<float>(p.at("epsilon")),
                  static_cast<float>(step.learning_rate * u.next / (1 - u.next_product)),
                  static_cast<float>(step.learning_rate * (1 - u.now) / (1 - u.product)),
                  static_cast<float>(1 / (1 - power(beta_2, step.step)))};
  return row_kernel({2}, [f](size_t n, float* row, float* slots, const float* grad) {
    nadam_row(n, row, slots, slots + n, grad, f);
  });
}

}  // namespace

// tf.keras.optimizers.Nadam.
UpdateFormula nadam() {
  return {"nadam",
          {{"learning_rate", 0.001}, {"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}},
          WeightDecay::kNone,
          slots,
          kernel};
}

}  // namespace embers::storage
