#include "storage/optimizers/update_rule.h"

#include "schema/errors.h"

namespace embers::storage {

void check_shapes(std::span<const float> row, std::span<const float> slots, std::span<const float> grad,
                  SlotFloats expected) {
  if (grad.size() != row.size() || slots.size() != expected.beside(row.size()))
    fail(ErrorCode::kInternal,
         "a row of {} floats with {} floats of slots got a gradient of {} by an optimizer of {} floats of "
         "slots",
         row.size(), slots.size(), grad.size(), expected.beside(row.size()));
}

double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

}  // namespace embers::storage
