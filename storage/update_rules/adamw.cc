#include "storage/update_rules/adam_kernel.h"

namespace embers::storage {

// torch.optim.AdamW, with Keras's default weight_decay.
UpdateFormula adamw() {
  return {"adamw",
          {{"learning_rate", 0.001},
           {"beta_1", 0.9},
           {"beta_2", 0.999},
           {"epsilon", 1e-7},
           {"amsgrad", 0},
           {"weight_decay", 0.004}},
          WeightDecay::kDecoupled,
          adam_slots,
          [](const Params& p, const UpdateRule::Step& step) {
            return adam_kernel(p, step, AdamEpsilon::kAfterCorrection);
          },
          [](const Params& p, const UpdateRule::Step& step) {
            return guarded_adam_kernel(p, step, AdamEpsilon::kAfterCorrection);
          }};
}

}  // namespace embers::storage
