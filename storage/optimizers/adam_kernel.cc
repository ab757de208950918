#include "storage/optimizers/adam_kernel.h"

#include <algorithm>
#include <cmath>

#include "schema/instruction_sets.h"

namespace embers::storage {
namespace {

// m += (grad - m)(1 - beta_1);  v += (grad^2 - v)(1 - beta_2);  row -= rate * m / (sqrt(v) + epsilon)
// where rate has the bias correction in it.
struct Factors {
  float one_minus_beta_1, one_minus_beta_2, epsilon, rate;
};
EMBERS_INSTRUCTION_SETS bool adam_row(size_t n, float* __restrict row, float* __restrict m,
                                      float* __restrict v, const float* __restrict grad,
                                      float* __restrict before, Factors f) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < n; ++i) {
    before[i] = row[i];
    before[n + i] = m[i];
    before[2 * n + i] = v[i];
    m[i] += (grad[i] - m[i]) * f.one_minus_beta_1;
    v[i] += (grad[i] * grad[i] - v[i]) * f.one_minus_beta_2;
    row[i] -= f.rate * m[i] / (std::sqrt(v[i]) + f.epsilon);
    greatest = std::max({greatest, magnitude(row[i]), magnitude(m[i]), magnitude(v[i])});
  }
  return is_finite_magnitude(greatest);
}

// The same with the greatest v so far in place of v.
EMBERS_INSTRUCTION_SETS bool amsgrad_row(size_t n, float* __restrict row, float* __restrict m,
                                         float* __restrict v, float* __restrict v_hat,
                                         const float* __restrict grad, float* __restrict before, Factors f) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < n; ++i) {
    before[i] = row[i];
    before[n + i] = m[i];
    before[2 * n + i] = v[i];
    before[3 * n + i] = v_hat[i];
    m[i] += (grad[i] - m[i]) * f.one_minus_beta_1;
    v[i] += (grad[i] * grad[i] - v[i]) * f.one_minus_beta_2;
    v_hat[i] = std::max(v_hat[i], v[i]);
    row[i] -= f.rate * m[i] / (std::sqrt(v_hat[i]) + f.epsilon);
    greatest = std::max({greatest, magnitude(row[i]), magnitude(m[i]), magnitude(v[i]), magnitude(v_hat[i])});
  }
  return is_finite_magnitude(greatest);
}

Factors factors(const Params& p, const Optimizer::Step& step, AdamEpsilon place) {
  const double beta_1 = p.at("beta_1"), beta_2 = p.at("beta_2"), epsilon = p.at("epsilon");
  const double root = std::sqrt(1 - power(beta_2, step.step));
  return {static_cast<float>(1 - beta_1), static_cast<float>(1 - beta_2),
          static_cast<float>(place == AdamEpsilon::kAfterCorrection ? epsilon * root : epsilon),
          static_cast<float>(step.learning_rate * root / (1 - power(beta_1, step.step)))};
}

}  // namespace

std::vector<Optimizer::Slot> adam_slots(const Params& params) {
  std::vector<Optimizer::Slot> slots{{"m", 0}, {"v", 0}};
  if (params.at("amsgrad") != 0) slots.push_back({"v_hat", 0});
  return slots;
}

GuardedKernel adam_kernel(const Params& params, const Optimizer::Step& step, AdamEpsilon epsilon) {
  const Factors f = factors(params, step, epsilon);
  if (params.at("amsgrad") != 0)
    return guarded_row_kernel({3}, [f](size_t n, float* row, float* slots, const float* grad, float* before) {
      return amsgrad_row(n, row, slots, slots + n, slots + 2 * n, grad, before, f);
    });
  return guarded_row_kernel({2}, [f](size_t n, float* row, float* slots, const float* grad, float* before) {
    return adam_row(n, row, slots, slots + n, grad, before, f);
  });
}

}  // namespace embers::storage
