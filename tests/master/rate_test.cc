// How fast a count has grown lately.
#include "master/state/progress/rate.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

Rate::Time at(double seconds) {
  return Rate::Time(std::chrono::hours(1)) +
         std::chrono::duration_cast<Rate::Time::duration>(std::chrono::duration<double>(seconds));
}

TEST(Rate, IsKnownFromTheSecondSampleOn) {
  Rate rate(5);
  EXPECT_EQ(rate.per_second(at(0)), 0);
  rate.add(100, at(0));
  EXPECT_EQ(rate.per_second(at(1)), 0);
  rate.add(150, at(1));
  EXPECT_DOUBLE_EQ(rate.per_second(at(1)), 50);
}

TEST(Rate, ForgetsWhatWasLongerAgoThanItsSpan) {
  Rate rate(5);
  uint64_t count = 0;
  for (int second = 0; second <= 20; ++second) rate.add(count += 1000, at(second));
  for (int second = 21; second <= 30; ++second) rate.add(count += 10, at(second));
  EXPECT_NEAR(rate.per_second(at(30)), 10, 1e-9);
}

TEST(Rate, GoesDownWhenNothingGrowsAndToNothingWhenNobodySaysAnything) {
  Rate rate(5);
  rate.add(0, at(0));
  rate.add(100, at(1));
  EXPECT_DOUBLE_EQ(rate.per_second(at(2)), 50);
  EXPECT_DOUBLE_EQ(rate.per_second(at(4)), 25);
  EXPECT_EQ(rate.per_second(at(7)), 0);
}

TEST(Rate, BeginsAnewWithACountThatDoes) {
  Rate rate(5);
  rate.add(1000, at(0));
  rate.add(3, at(1));
  EXPECT_EQ(rate.per_second(at(1)), 0);
  rate.add(7, at(2));
  EXPECT_DOUBLE_EQ(rate.per_second(at(2)), 4);
}

TEST(Rate, BeginsAnewAfterABreak) {
  Rate rate(5);
  rate.add(1000, at(0));
  rate.add(2000, at(1));
  rate.add(2000, at(100));
  EXPECT_EQ(rate.per_second(at(100)), 0);
  rate.add(2010, at(101));
  EXPECT_DOUBLE_EQ(rate.per_second(at(101)), 10);
}

TEST(Rate, IsTheSameHoweverOftenItIsTold) {
  Rate often(5), seldom(5);
  for (int i = 0; i <= 20000; ++i) often.add(i, at(i / 1000.0));
  for (int i = 0; i <= 20; ++i) seldom.add(1000 * i, at(i));
  EXPECT_NEAR(often.per_second(at(20)), 1000, 1);
  EXPECT_NEAR(seldom.per_second(at(20)), 1000, 1e-6);
}

}  // namespace
}  // namespace embers
