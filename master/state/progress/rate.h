#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

namespace embers {

// How fast a count has grown lately: over about the last `span` seconds, and since it was last not told for
// as long. Moments come from the caller. Holds some ten samples, however often it is told.
class Rate {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Rate(double span = 5) : span_(span) {}
  void add(uint64_t count, Time now);
  // 0 before there are two samples. What no longer grows goes down to 0 within the span.
  double per_second(Time now) const;

 private:
  struct Sample {
    uint64_t count;
    Time at;
  };
  double span_;
  std::deque<Sample> samples_;  // oldest first; the first one is older than the span, if any is
};

}  // namespace embers
