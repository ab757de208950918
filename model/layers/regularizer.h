#pragma once

#include <torch/types.h>

namespace embers {

// tf.keras.regularizers: l1 * sum|x| + l2 * sum x^2, added to the loss.
struct Regularizer {
  double l1 = 0, l2 = 0;

  // Whether it adds anything.
  explicit operator bool() const { return l1 != 0 || l2 != 0; }
  // Scalar; differentiable. The gradient of |x| at 0 is 0.
  torch::Tensor penalty(const torch::Tensor& x) const;
  friend bool operator==(const Regularizer&, const Regularizer&) = default;
};

// With Keras' defaults.
inline Regularizer l1(double factor = 0.01) { return {factor, 0}; }
inline Regularizer l2(double factor = 0.01) { return {0, factor}; }
inline Regularizer l1_l2(double l1 = 0.01, double l2 = 0.01) { return {l1, l2}; }

}  // namespace embers
