#include "storage/initializers/normal_quantile.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/floats/instruction_sets.h"

namespace embers::storage {
namespace {

// Coefficients of algorithm AS 241, PPND16 (Wichura, Applied Statistics 37, 1988), highest power first. Its
// third region, beyond 6.6 standard deviations, is out of reach for the p that are allowed here.
using Polynomial = std::array<double, 8>;
constexpr Polynomial kCentreTop{2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
                                4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
                                1.3314166789178437745e2, 3.3871328727963666080e0};
constexpr Polynomial kCentreBottom{
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0};
constexpr Polynomial kTailTop{7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                              1.27045825245236838258e0,  3.64784832476320460504e0,  5.76949722146069140550e0,
                              4.63033784615654529590e0,  1.42343711074968357734e0};
constexpr Polynomial kTailBottom{1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                 1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                 6.89767334985100004550e-1, 1.67638483018380384940e0,
                                 2.05319162663775882187e0,  1.0};

EMBERS_INLINE double evaluate(const Polynomial& coefficients, double x) {
  double sum = 0;
  for (const double c : coefficients) sum = sum * x + c;
  return sum;
}

// Natural logarithm of a positive normal number: the exponent separately, then 2 atanh(s) with s = (m - 1) /
// (m + 1), |s| < 0.172, as a series; the first term that is left out is below 1e-18.
EMBERS_INLINE double natural_log(double x) {
  constexpr double kLn2 = 0.6931471805599453094, kSqrt2 = 1.4142135623730950488;
  const auto bits = std::bit_cast<uint64_t>(x);
  // The sum of 2^52 and the exponent's bits, as a double: no conversion, for which there may be no vectors.
  const double biased = std::bit_cast<double>(bits >> 52 | 0x4330000000000000) - 0x1p52;
  const double mantissa = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFF) | (uint64_t{1023} << 52));
  const bool halve = mantissa > kSqrt2;
  const double exponent = biased - (halve ? 1022 : 1023);
  const double m = mantissa * (halve ? 0.5 : 1);
  const double s = (m - 1) / (m + 1);
  double sum = 0;
  for (int power = 21; power >= 1; power -= 2) sum = sum * (s * s) + 1.0 / power;
  return exponent * kLn2 + 2 * s * sum;
}

EMBERS_INLINE double centre(double p) {
  const double q = p - 0.5, r = 0.180625 - q * q;
  return q * evaluate(kCentreTop, r) / evaluate(kCentreBottom, r);
}

EMBERS_INLINE double tail(double p) {
  const double r = std::sqrt(-natural_log(std::min(p, 1 - p))) - 1.6;
  return std::copysign(evaluate(kTailTop, r) / evaluate(kTailBottom, r), p - 0.5);
}

}  // namespace

// All as if they were in the centre, without branches; then the tails, which are one in seven.
EMBERS_INSTRUCTION_SETS
void normal_quantiles(const double* p, size_t n, double* quantiles) {
  for (size_t i = 0; i < n; ++i) quantiles[i] = centre(p[i]);
  uint32_t at[kMostQuantiles];
  double tails[kMostQuantiles];
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    at[count] = static_cast<uint32_t>(i);
    tails[count] = p[i];
    count += std::fabs(p[i] - 0.5) > 0.425;
  }
  for (size_t t = 0; t < count; ++t) tails[t] = tail(tails[t]);
  for (size_t t = 0; t < count; ++t) quantiles[at[t]] = tails[t];
}

}  // namespace embers::storage
