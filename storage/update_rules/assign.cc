#include <algorithm>

#include "storage/update_rules/update_formula.h"

namespace embers::storage {

// row = grad: how buffers, whose "gradient" is their new value, go through the same path as everything else.
UpdateFormula assign() {
  return {"assign",
          {},
          WeightDecay::kNone,
          [](const Params&) { return std::vector<UpdateRule::Slot>(); },
          [](const Params&, const UpdateRule::Step&) {
            return row_kernel(
                {}, [](size_t n, float* row, float*, const float* grad) { std::copy(grad, grad + n, row); });
          }};
}

}  // namespace embers::storage
