#include "bench/peers/row_adam.h"

#include <cmath>

#include "base/floats/instruction_sets.h"

namespace embers {

EMBERS_INSTRUCTION_SETS void adam_row(const RowAdam& a, int64_t dim, const float* __restrict gradient,
                                      float* __restrict row, float* __restrict average,
                                      float* __restrict squares) {
  for (int64_t k = 0; k < dim; ++k) {
    average[k] += (1 - a.beta_1) * (gradient[k] - average[k]);
    squares[k] += (1 - a.beta_2) * (gradient[k] * gradient[k] - squares[k]);
    row[k] -= a.rate * average[k] / (std::sqrt(squares[k]) + a.epsilon);
  }
}

}  // namespace embers
