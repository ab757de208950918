#include "bench/harness/loss_course.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace embers {
namespace {

const std::vector<LossAt> kCourse{{0, 0.7}, {2, 0.6}, {4, 0.5}, {6, 0.55}, {8, 0.4}};

TEST(SecondsToLoss, LieOnTheLineBetweenTwoPoints) {
  EXPECT_DOUBLE_EQ(seconds_to_loss(kCourse, 0.6), 2);
  EXPECT_DOUBLE_EQ(seconds_to_loss(kCourse, 0.575), 2.5);
}

TEST(SecondsToLoss, CountTheFirstTime) {
  EXPECT_DOUBLE_EQ(seconds_to_loss(kCourse, 0.5), 4);
  EXPECT_DOUBLE_EQ(seconds_to_loss(kCourse, 0.45), 6 + 2 * (0.55 - 0.45) / (0.55 - 0.4));
}

TEST(SecondsToLoss, AreThoseOfTheFirstPointIfItIsLowEnough) {
  EXPECT_DOUBLE_EQ(seconds_to_loss(kCourse, 0.8), 0);
}

TEST(SecondsToLoss, AreInfiniteForALossThatIsNeverReached) {
  EXPECT_EQ(seconds_to_loss(kCourse, 0.39), INFINITY);
  EXPECT_EQ(seconds_to_loss({}, 1), INFINITY);
  EXPECT_EQ(seconds_to_loss(std::vector<LossAt>{{1, NAN}}, 1), INFINITY);
}

}  // namespace
}  // namespace embers
