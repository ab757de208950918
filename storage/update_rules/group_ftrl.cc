#include <algorithm>
#include <cmath>

#include "storage/update_rules/ftrl_sums.h"

namespace embers::storage {
namespace {

// row = z (l1 - |z|) / (|z| (row + twice_l2)), where row holds n^power / rate; 0 where the norm |z| is at
// most l1.
void group_ftrl_row(size_t dim, float* __restrict row, const float* __restrict z, float l1, float twice_l2) {
  double squares = 0;
  for (size_t i = 0; i < dim; ++i) squares += double{z[i]} * z[i];
  const double norm = std::sqrt(squares);
  if (norm <= l1) {
    std::fill_n(row, dim, 0.0f);
    return;
  }
  const auto factor = static_cast<float>((l1 - norm) / norm);
  for (size_t i = 0; i < dim; ++i) row[i] = z[i] == 0 ? 0 : factor * z[i] / (row[i] + twice_l2);
}

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const auto l1 = static_cast<float>(p.at("l1_regularization_strength"));
  const auto twice_l2 = static_cast<float>(2 * p.at("l2_regularization_strength"));
  if (step.learning_rate == 0) return row_kernel({2}, [](size_t, float*, float*, const float*) {});
  return row_kernel({2},
                    [=, sums = FtrlSums(p, step)](size_t n, float* row, float* slots, const float* grad) {
                      sums.add(n, row, slots, slots + n, grad);
                      sums.inverse_rates(n, slots, row);
                      group_ftrl_row(n, row, slots + n, l1, twice_l2);
                    });
}

}  // namespace

// DeepRec's FTRL for embedding variables (KvResourceSparseApplyFtrl): ftrl with l1 on the norm of the row's
// z, so that whole rows become zero. A learning rate of 0, by which the formula would divide, changes
// nothing.
UpdateFormula group_ftrl() {
  return {"group_ftrl",
          {{"learning_rate", 0.001},
           {"learning_rate_power", -0.5},
           {"initial_accumulator_value", 0.1},
           {"l1_regularization_strength", 0},
           {"l2_regularization_strength", 0}},
          WeightDecay::kNone,
          ftrl_slots,
          kernel,
          nullptr,
          true,
          true};
}

}  // namespace embers::storage
