#include "bench/harness/loss_course.h"

#include <cmath>

namespace embers {

double seconds_to_loss(std::span<const LossAt> course, double loss) {
  for (size_t i = 0; i < course.size(); ++i) {
    const LossAt& now = course[i];
    if (!(now.loss <= loss)) continue;
    if (i == 0) return now.seconds;
    const LossAt& before = course[i - 1];
    return before.seconds + (now.seconds - before.seconds) * (before.loss - loss) / (before.loss - now.loss);
  }
  return INFINITY;
}

}  // namespace embers
