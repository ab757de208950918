#include "storage/initializers/distributions.h"

#include <algorithm>
#include <cmath>

#include "base/floats/instruction_sets.h"

namespace embers::storage {
namespace {

EMBERS_INSTRUCTION_SETS
void draw_uniform(const uint32_t* words, size_t n, double low, double range, float last, float* values) {
  for (size_t i = 0; i < n; ++i) {
    const double unit = static_cast<int32_t>(words[i] >> 8) * 0x1p-24;
    values[i] = std::min(static_cast<float>(low + range * unit), last);  // rounding may reach `high`
  }
}

EMBERS_INSTRUCTION_SETS
void to_probabilities(const uint32_t* words, size_t n, double below, double* p) {
  for (size_t i = 0; i < n; ++i) p[i] = below + (1 - 2 * below) * ((words[i] + 0.5) * 0x1p-32);
}

EMBERS_INSTRUCTION_SETS
void scale(const double* x, size_t n, double mean, double stddev, float* values) {
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(mean + stddev * x[i]);
}

}  // namespace

Uniform::Uniform(double low, double high)
    : low_(low),
      range_(high - low),
      last_(std::nextafter(static_cast<float>(high), static_cast<float>(low))) {}

void Uniform::draw(const uint32_t* words, size_t n, float* values) const {
  draw_uniform(words, n, low_, range_, last_, values);
}

Normal::Normal(double mean, double stddev, Cut cut)
    : mean_(mean), stddev_(stddev), below_(cut == Cut::kAtTwoSigma ? 0.02275013194817920720 : 0) {}

void Normal::draw(const uint32_t* words, size_t n, float* values) const {
  double p[kMostQuantiles], x[kMostQuantiles];
  to_probabilities(words, n, below_, p);
  normal_quantiles(p, n, x);
  scale(x, n, mean_, stddev_, values);
}

}  // namespace embers::storage
