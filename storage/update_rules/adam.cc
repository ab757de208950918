#include "storage/update_rules/adam_kernel.h"

namespace embers::storage {

// torch.optim.SparseAdam, with the model's step for every row; with amsgrad, which SparseAdam does not have,
// torch.optim.Adam.
UpdateFormula adam() {
  return {"adam",
          {{"learning_rate", 0.001},
           {"beta_1", 0.9},
           {"beta_2", 0.999},
           {"epsilon", 1e-7},
           {"amsgrad", 0},
           {"weight_decay", 0}},
          WeightDecay::kCoupled,
          adam_slots,
          [](const Params& p, const UpdateRule::Step& step) {
            return adam_kernel(
                p, step,
                p.at("amsgrad") != 0 ? AdamEpsilon::kAfterCorrection : AdamEpsilon::kBeforeCorrection);
          },
          [](const Params& p, const UpdateRule::Step& step) {
            return guarded_adam_kernel(p, step, AdamEpsilon::kBeforeCorrection);
          }};
}

}  // namespace embers::storage
