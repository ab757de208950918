#include <algorithm>

#include "storage/update_rules/ftrl_sums.h"

namespace embers::storage {
namespace {

// row = (clamp(z, -l1, l1) - z) / (row + twice_l2), where row holds n^power / rate. Where n starts at 0, a
// row that nothing has moved yet would be 0 / 0; it is set to 0.
void ftrl_row(size_t dim, float* __restrict row, const float* __restrict z, float l1, float twice_l2) {
  for (size_t i = 0; i < dim; ++i) {
    const float beyond = std::clamp(z[i], -l1, l1) - z[i];
    row[i] = beyond == 0 ? 0 : beyond / (row[i] + twice_l2);
  }
}

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const auto l1 = static_cast<float>(p.at("l1_regularization_strength"));
  const auto twice_l2 =
      static_cast<float>(2 * p.at("l2_regularization_strength") + p.at("beta") / step.learning_rate);
  if (step.learning_rate == 0) return row_kernel({2}, [](size_t, float*, float*, const float*) {});
  return row_kernel({2},
                    [=, sums = FtrlSums(p, step)](size_t n, float* row, float* slots, const float* grad) {
                      sums.add(n, row, slots, slots + n, grad);
                      sums.inverse_rates(n, slots, row);
                      ftrl_row(n, row, slots + n, l1, twice_l2);
                    });
}

}  // namespace

// tf.keras.optimizers.Ftrl. A learning rate of 0, by which the formula would divide, changes nothing.
UpdateFormula ftrl() {
  return {"ftrl",
          {{"learning_rate", 0.001},
           {"learning_rate_power", -0.5},
           {"initial_accumulator_value", 0.1},
           {"l1_regularization_strength", 0},
           {"l2_regularization_strength", 0},
           {"l2_shrinkage_regularization_strength", 0},
           {"beta", 0}},
          WeightDecay::kNone,
          ftrl_slots,
          kernel,
          nullptr,
          false,
          true};
}

}  // namespace embers::storage
