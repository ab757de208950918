#pragma once

#include "storage/update_rules/update_formula.h"

namespace embers::storage {

// Where adam and adamw add epsilon in the step that they share.
enum class AdamEpsilon : uint8_t {
  kBeforeCorrection,  // sqrt(v) + epsilon, then corrected: torch.optim.SparseAdam
  kAfterCorrection,   // sqrt(v / (1 - beta_2^t)) + epsilon: torch.optim.Adam and AdamW
};

// Slots m and v, and v_hat with amsgrad.
std::vector<UpdateRule::Slot> adam_slots(const Params& params);
UpdateKernel adam_kernel(const Params& params, const UpdateRule::Step& step, AdamEpsilon epsilon);
// Empty with amsgrad.
GuardedKernel guarded_adam_kernel(const Params& params, const UpdateRule::Step& step, AdamEpsilon epsilon);

}  // namespace embers::storage
