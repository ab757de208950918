#include "bench/harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace embers {
namespace {

constexpr size_t kSamples = 2000;
constexpr double kTail = 0.025;

bool is_less(const Estimate& a, const Estimate& b) { return a.value < b.value; }

// `figure` of the measurements with these numbers.
using Figure = std::function<double(const std::vector<size_t>& drawn)>;

Estimate bootstrap(size_t measurements, const Figure& figure) {
  std::mt19937_64 random(1);
  std::vector<size_t> drawn(measurements);
  for (size_t i = 0; i < measurements; ++i) drawn[i] = i;
  const double value = figure(drawn);
  std::vector<double> figures;
  for (size_t s = 0; s < kSamples; ++s) {
    for (size_t& d : drawn) d = random() % measurements;
    figures.push_back(figure(drawn));
  }
  std::sort(figures.begin(), figures.end());
  const auto tail = static_cast<size_t>(kTail * kSamples);
  return {value, figures[tail], figures[kSamples - 1 - tail]};
}

double median_of(const std::vector<double>& values, const std::vector<size_t>& drawn) {
  std::vector<double> some;
  for (const size_t d : drawn) some.push_back(values.at(d));
  return median(std::move(some));
}

}  // namespace

double median(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half] : (values.at(half - 1) + values[half]) / 2;
}

Estimate median_estimate(const std::vector<double>& values) {
  return bootstrap(values.size(), [&](const auto& drawn) { return median_of(values, drawn); });
}

Estimate ratio_of_medians(const std::vector<double>& over, const std::vector<double>& under) {
  return bootstrap(std::min(over.size(), under.size()),
                   [&](const auto& drawn) { return median_of(over, drawn) / median_of(under, drawn); });
}

Estimate geometric_mean(std::span<const Estimate> figures) {
  double sum = 0, below = 0, above = 0;
  for (const Estimate& f : figures) {
    sum += std::log(f.value);
    below += std::pow(std::log(f.value / f.low), 2);
    above += std::pow(std::log(f.high / f.value), 2);
  }
  const auto n = static_cast<double>(figures.size());
  const double mean = std::exp(sum / n);
  return {mean, mean * std::exp(-std::sqrt(below) / n), mean * std::exp(std::sqrt(above) / n)};
}

Estimate least(std::span<const Estimate> figures) {
  return *std::min_element(figures.begin(), figures.end(), is_less);
}
Estimate most(std::span<const Estimate> figures) {
  return *std::max_element(figures.begin(), figures.end(), is_less);
}

}  // namespace embers
