#include "bench/harness/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace embers {
namespace {

TEST(Median, IsTheMiddleOrBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(median({5, 1, 9}), 5);
  EXPECT_EQ(median({4, 1, 2, 9}), 3);
  EXPECT_EQ(median({7}), 7);
}

TEST(MedianEstimate, HasAnIntervalWithinTheValuesThatCoversTheMedian) {
  std::vector<double> values;
  for (int i = 1; i <= 31; ++i) values.push_back(i);
  const Estimate e = median_estimate(values);
  EXPECT_EQ(e.value, 16);
  // Order statistics: the interval of 95 % for 31 values lies between the 10th and the 22nd.
  EXPECT_GE(e.low, 9);
  EXPECT_LE(e.low, 12);
  EXPECT_GE(e.high, 20);
  EXPECT_LE(e.high, 23);
}

TEST(MedianEstimate, IsTheSameForTheSameValues) {
  const std::vector<double> values{3, 1, 4, 1, 5, 9, 2, 6};
  const Estimate a = median_estimate(values), b = median_estimate(values);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
}

TEST(MedianEstimate, OfOneValueHasNoWidth) {
  const Estimate e = median_estimate({7});
  EXPECT_EQ(e.low, 7);
  EXPECT_EQ(e.high, 7);
}

TEST(RatioOfMedians, DrawsWhatWasMeasuredSideBySideTogether) {
  // The machine's speed varies by rounds, the ratio does not.
  const std::vector<double> over{2, 20, 6, 100, 14}, under{1, 10, 3, 50, 7};
  const Estimate e = ratio_of_medians(over, under);
  EXPECT_EQ(e.value, 2);
  EXPECT_EQ(e.low, 2);
  EXPECT_EQ(e.high, 2);
}

TEST(RatioOfMedians, IsNotTheMedianOfRatios) {
  EXPECT_EQ(ratio_of_medians({1, 2, 3}, {3, 2, 1}).value, 1);
  EXPECT_EQ(ratio_of_medians({1, 8, 9}, {1, 2, 9}).value, 4);
}

TEST(GeometricMean, AddsUpErrorsAsIndependentOnes) {
  const Estimate wide(2, 1, 4), narrow(8);
  const Estimate mean = geometric_mean(std::vector{wide, narrow});
  EXPECT_NEAR(mean.value, 4, 1e-12);
  EXPECT_NEAR(mean.low, 4 / std::sqrt(2), 1e-12);
  EXPECT_NEAR(mean.high, 4 * std::sqrt(2), 1e-12);
}

TEST(LeastAndMost, GoByTheValue) {
  const std::vector<Estimate> figures{{2, 0, 9}, {1, 1, 1}, {3, 0, 3}};
  EXPECT_EQ(least(figures).value, 1);
  EXPECT_EQ(most(figures).value, 3);
  EXPECT_EQ(most(figures).low, 0);
}

}  // namespace
}  // namespace embers
