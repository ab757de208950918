#include "bench/harness/latencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace embers {
namespace {

constexpr double kFirst = 0.125;  // ms, upper bound of the first bucket
constexpr size_t kBarWidth = 50;

double upper_bound(size_t bucket) { return kFirst * std::pow(2.0, static_cast<double>(bucket) / 2); }

size_t bucket_of(double ms) {
  size_t bucket = 0;
  while (ms > upper_bound(bucket)) ++bucket;
  return bucket;
}

}  // namespace

double Latencies::percentile(double share) const {
  if (all_.empty()) return 0;
  std::vector<double> sorted = all_;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

std::string Latencies::histogram() const {
  if (all_.empty()) return "";
  std::vector<size_t> counts;
  for (const double ms : all_) {
    const size_t bucket = bucket_of(ms);
    counts.resize(std::max(counts.size(), bucket + 1));
    ++counts[bucket];
  }
  const size_t most = *std::max_element(counts.begin(), counts.end());
  const size_t first =
      std::find_if(counts.begin(), counts.end(), [](size_t n) { return n > 0; }) - counts.begin();
  std::string text;
  for (size_t b = first; b < counts.size(); ++b)
    text += fmt::format("{:8.3f} - {:8.3f} ms {:>8}  {}\n", b == 0 ? 0.0 : upper_bound(b - 1), upper_bound(b),
                        counts[b], std::string((counts[b] * kBarWidth + most - 1) / most, '#'));
  return text;
}

}  // namespace embers
