#pragma once

#include "storage/update_rules/update_formula.h"

namespace embers::storage {

// What ftrl and group_ftrl have in common: sums n (of squared gradients) and z ("linear"), two slots of dim
// floats each, of which the row is then a function.
struct FtrlSums {
  float rate;
  float shrinkage;  // 2 * l2_shrinkage_regularization_strength
  double power;     // -learning_rate_power

  explicit FtrlSums(const Params& params, const UpdateRule::Step& step);
  // n += grad^2;  z += grad + shrinkage * row - (n^power - previous n^power) / rate * row
  void add(size_t dim, const float* row, float* n, float* z, const float* grad) const;
  // out = n^power / rate
  void inverse_rates(size_t dim, const float* n, float* out) const;
};

// Slots accumulator (n) and linear (z).
std::vector<UpdateRule::Slot> ftrl_slots(const Params& params);

}  // namespace embers::storage
