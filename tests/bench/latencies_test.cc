#include "bench/harness/latencies.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

Latencies of(const std::vector<double>& all) {
  Latencies latencies;
  for (const double ms : all) latencies.add(ms);
  return latencies;
}

TEST(Latencies, PercentileIsTheSmallestThatTheShareDoesNotExceed) {
  Latencies hundred;
  for (int i = 100; i > 0; --i) hundred.add(i);
  EXPECT_EQ(hundred.percentile(0.5), 50);
  EXPECT_EQ(hundred.percentile(0.99), 99);
  EXPECT_EQ(hundred.percentile(1), 100);
  EXPECT_EQ(of({3, 1}).percentile(0.5), 1);
  EXPECT_EQ(of({3, 1}).percentile(0.51), 3);
  EXPECT_EQ(of({7}).percentile(0.01), 7);
  EXPECT_EQ(Latencies().percentile(0.5), 0);
}

TEST(Latencies, HistogramCountsEachLatencyOnceInItsBucket) {
  EXPECT_EQ(of({0.1, 0.125, 0.2, 0.2}).histogram(),
            "   0.000 -    0.125 ms        2  ##################################################\n"
            "   0.125 -    0.177 ms        0  \n"
            "   0.177 -    0.250 ms        2  ##################################################\n");
}

TEST(Latencies, HistogramBeginsAtTheFirstBucketInUse) {
  EXPECT_EQ(of({0.9, 0.9, 0.9, 1.2}).histogram(),
            "   0.707 -    1.000 ms        3  ##################################################\n"
            "   1.000 -    1.414 ms        1  #################\n");
  EXPECT_EQ(Latencies().histogram(), "");
}

}  // namespace
}  // namespace embers
