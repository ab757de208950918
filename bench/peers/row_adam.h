#pragma once

#include <cstdint>

namespace embers {

// Adam on one row, without the corrections that all rows share, which `rate` has.
struct RowAdam {
  float beta_1, beta_2, epsilon, rate;
};

// Changes row, average and squares, of `dim` floats each. Compiled for the instruction sets that embers' own
// is compiled for.
void adam_row(const RowAdam& a, int64_t dim, const float* gradient, float* row, float* average,
              float* squares);

}  // namespace embers
