#pragma once

#include <span>

namespace embers {

// What a training run had come to: seconds of training so far, and the test loss then.
struct LossAt {
  double seconds, loss;
};

// Seconds until a course of losses, in the order of time, is first at `loss` or below it, on straight lines
// between its points. INFINITY if it never is, or has no points.
double seconds_to_loss(std::span<const LossAt> course, double loss);

}  // namespace embers
