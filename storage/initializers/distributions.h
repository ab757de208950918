#pragma once

#include <cstddef>
#include <cstdint>

#include "storage/initializers/normal_quantile.h"

namespace embers::storage {

// Values of a distribution, each a pure function of one random word. values[i] becomes that of words[i]; n <=
// kMostQuantiles.

// Uniform over [low, high), as tf.random.uniform.
class Uniform {
 public:
  Uniform(double low, double high);
  void draw(const uint32_t* words, size_t n, float* values) const;

 private:
  double low_, range_;
  float last_;
};

// Normal; if it is cut, within two standard deviations of the mean, as tf.random.truncated_normal.
class Normal {
 public:
  enum class Cut : uint8_t { kNo, kAtTwoSigma };
  Normal(double mean, double stddev, Cut cut);
  void draw(const uint32_t* words, size_t n, float* values) const;

 private:
  double mean_, stddev_;
  double below_;  // P(X < -2), or 0 where nothing is cut
};

}  // namespace embers::storage
