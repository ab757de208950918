#include "storage/update_rules/update_formula.h"

#include "base/errors.h"

namespace embers::storage {

void fail_shapes(size_t row, size_t slots, size_t grad) {
  fail(ErrorCode::kInternal,
       "a row of {} floats with {} floats of slots got a gradient of {} floats from an update rule with "
       "other slots",
       row, slots, grad);
}

double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

}  // namespace embers::storage
