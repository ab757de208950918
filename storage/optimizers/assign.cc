#include <algorithm>

#include "storage/optimizers/update_rule.h"

namespace embers::storage {

// row = grad: how buffers, whose "gradient" is their new value, go through the same path as everything else.
UpdateRule assign() {
  return {"assign",
          {},
          WeightDecay::kNone,
          [](const Params&) { return std::vector<Optimizer::Slot>(); },
          [](const Params&, const Optimizer::Step&) {
            return row_kernel(
                {}, [](size_t n, float* row, float*, const float* grad) { std::copy(grad, grad + n, row); });
          }};
}

}  // namespace embers::storage
