#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace embers {

// Latencies of requests, in milliseconds. Plain arithmetic.
class Latencies {
 public:
  void add(double ms) { all_.push_back(ms); }
  size_t size() const { return all_.size(); }
  const std::vector<double>& all() const { return all_; }
  // The smallest latency that at least `share` (0 to 1] of all do not exceed (nearest rank); 0 without any.
  double percentile(double share) const;
  // A line for each bucket from the first to the last that is not empty: its bounds, which grow by the square
  // root of 2 from 0.125 ms on, its count, and a bar.
  std::string histogram() const;

 private:
  std::vector<double> all_;
};

}  // namespace embers
