#pragma once

#include <cstddef>

namespace embers::storage {

constexpr size_t kMostQuantiles = 256;

// quantiles[i] becomes the x with P(X <= x) = p[i] for a standard normal X; 2^-34 <= p[i] <= 1 - 2^-34, n <=
// kMostQuantiles. Accurate to about 1e-15, and made of + - * / sqrt alone, so that every machine gets the
// same bits (a mathematics library picks its code by processor).
void normal_quantiles(const double* p, size_t n, double* quantiles);

}  // namespace embers::storage
