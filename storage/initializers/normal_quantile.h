#pragma once

namespace embers::storage {

// x with P(X <= x) = p for a standard normal X; 2^-34 <= p <= 1 - 2^-34. Accurate to about 1e-15, and made of
// + - * / sqrt alone, so that every machine gets the same bits (a mathematics library picks its code by
// processor).
double normal_quantile(double p);

}  // namespace embers::storage
