#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace embers {

// A figure, and where it would lie in 95 of 100 such runs, as far as one run can tell. A number without an
// interval is all three.
struct Estimate {
  Estimate(double number = 0) : value(number), low(number), high(number) {}
  Estimate(double value, double low, double high) : value(value), low(low), high(high) {}
  double value, low, high;
};

// Plain arithmetic on values that are not empty. Intervals come from a bootstrap, the percentiles 2.5 and
// 97.5 over 2000 samples that are drawn with replacement, always the same for the same values.

double median(std::vector<double> values);  // of an even number: between the two in the middle
Estimate median_estimate(const std::vector<double>& values);

// The median of `over` divided by that of `under`. over[i] and under[i] were measured side by side, and are
// drawn together.
Estimate ratio_of_medians(const std::vector<double>& over, const std::vector<double>& under);

// The interval takes the errors for independent of one another.
Estimate geometric_mean(std::span<const Estimate> figures);
Estimate least(std::span<const Estimate> figures);
Estimate most(std::span<const Estimate> figures);

}  // namespace embers
