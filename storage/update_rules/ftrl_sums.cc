#include "storage/update_rules/ftrl_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace embers::storage {
namespace {

// The difference of roots without cancellation: sqrt(n + x) - sqrt(n) = x / (sqrt(n + x) + sqrt(n)).
void add_with_root(size_t dim, const float* __restrict row, float* __restrict n, float* __restrict z,
                   const float* __restrict grad, float rate, float shrinkage) {
  for (size_t i = 0; i < dim; ++i) {
    const float square = grad[i] * grad[i], before = std::sqrt(n[i]);
    n[i] += square;
    const float roots = std::max(std::sqrt(n[i]) + before, std::numeric_limits<float>::min());
    z[i] += grad[i] + shrinkage * row[i] - square / roots / rate * row[i];
  }
}

void add_with_power(size_t dim, const float* __restrict row, float* __restrict n, float* __restrict z,
                    const float* __restrict grad, float rate, float shrinkage, double power) {
  for (size_t i = 0; i < dim; ++i) {
    const double before = std::pow(double{n[i]}, power);
    n[i] += grad[i] * grad[i];
    const auto difference = static_cast<float>(std::pow(double{n[i]}, power) - before);
    z[i] += grad[i] + shrinkage * row[i] - difference / rate * row[i];
  }
}

}  // namespace

FtrlSums::FtrlSums(const Params& params, const UpdateRule::Step& step)
    : rate(static_cast<float>(step.learning_rate)),
      shrinkage(params.contains("l2_shrinkage_regularization_strength")
                    ? static_cast<float>(2 * params.at("l2_shrinkage_regularization_strength"))
                    : 0),
      power(-params.at("learning_rate_power")) {}

void FtrlSums::add(size_t dim, const float* row, float* n, float* z, const float* grad) const {
  if (power == 0.5) return add_with_root(dim, row, n, z, grad, rate, shrinkage);
  add_with_power(dim, row, n, z, grad, rate, shrinkage, power);
}

void FtrlSums::inverse_rates(size_t dim, const float* __restrict n, float* __restrict out) const {
  if (power == 0.5) {
    for (size_t i = 0; i < dim; ++i) out[i] = std::sqrt(n[i]) / rate;
  } else {
    for (size_t i = 0; i < dim; ++i) out[i] = static_cast<float>(std::pow(double{n[i]}, power)) / rate;
  }
}

std::vector<UpdateRule::Slot> ftrl_slots(const Params& params) {
  return {{"accumulator", static_cast<float>(params.at("initial_accumulator_value"))}, {"linear", 0}};
}

}  // namespace embers::storage
