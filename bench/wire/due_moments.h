#pragma once

#include <chrono>
#include <cstdint>
#include <random>

#include "bench/harness/bench.h"

namespace embers {

// Moments at which pulls are due, `rate` a second in the mean, with gaps as of independent askers
// (exponential), from now on. The same seed gives the same gaps, up to the rate.
class DueMoments {
 public:
  DueMoments(double rate, uint64_t seed) : random_(seed), gap_(rate) {}
  BenchClock::time_point next() {
    const std::chrono::duration<double> gap(gap_(random_));
    return due_ += std::chrono::duration_cast<BenchClock::duration>(gap);
  }

 private:
  BenchClock::time_point due_ = BenchClock::now();
  std::mt19937_64 random_;
  std::exponential_distribution<double> gap_;
};

}  // namespace embers
