#include "master/state/lease_deadlines.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

using Duration = LeaseDeadlines::Duration;

class Deadlines : public testing::Test {
 protected:
  static LeaseDeadlines::Time at(double seconds) {
    return LeaseDeadlines::Time(
        std::chrono::duration_cast<LeaseDeadlines::Clock::duration>(Duration(1000 + seconds)));
  }
  // The worker computes so many minibatches, each in so many seconds.
  void compute(LeaseDeadlines& deadlines, uint64_t worker, int minibatches, double seconds) {
    for (int i = 0; i < minibatches; ++i) {
      deadlines.granted(worker, 1, at(now_));
      deadlines.finished(worker, true, at(now_ += seconds));
    }
  }
  static std::vector<uint64_t> late(const LeaseDeadlines& deadlines, double seconds) {
    std::vector<uint64_t> workers;
    for (const LeaseDeadlines::Late& l : deadlines.late(at(seconds))) workers.push_back(l.worker);
    return workers;
  }
  double now_ = 0;
};

TEST_F(Deadlines, ASettingCountsFromTheFirstMinibatchOn) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, 1, at(0));
  deadlines.granted(2, 1, at(3));
  EXPECT_TRUE(late(deadlines, 5).empty());
  EXPECT_EQ(late(deadlines, 6), std::vector<uint64_t>{1});
  EXPECT_EQ(late(deadlines, 9), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(deadlines.late(at(9))[0].taken, Duration(9));
}

TEST_F(Deadlines, AMinibatchThatWaitsBehindAnotherHasNotBegun) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, 4, at(0));
  for (int i = 1; i <= 4; ++i) {
    EXPECT_TRUE(late(deadlines, 4 * i).empty()) << i;
    deadlines.finished(1, true, at(4 * i));
  }
  EXPECT_TRUE(late(deadlines, 1000).empty()) << "it holds nothing";
  deadlines.granted(1, 1, at(1000));
  deadlines.granted(1, 1, at(1004));
  EXPECT_EQ(late(deadlines, 1006), std::vector<uint64_t>{1}) << "another lease does not help a late one";
}

TEST_F(Deadlines, AreGenerousUntilTwentyMinibatchesAreKnown) {
  LeaseDeadlines deadlines;
  compute(deadlines, 1, 19, 0.1);
  EXPECT_EQ(deadlines.limit(), LeaseDeadlines::kFirst);
  compute(deadlines, 2, 1, 0.1);
  EXPECT_EQ(deadlines.limit(), LeaseDeadlines::kLeast);
}

TEST_F(Deadlines, FollowTheSlowestOfTheRecentMinibatches) {
  LeaseDeadlines deadlines;
  compute(deadlines, 1, 40, 1);
  compute(deadlines, 2, 1, 60);
  compute(deadlines, 1, LeaseDeadlines::kRecent - 1, 1);
  EXPECT_NEAR(deadlines.limit().count(), 600, 1e-3);
  compute(deadlines, 1, 1, 1);
  EXPECT_EQ(deadlines.limit(), LeaseDeadlines::kLeast);
}

TEST_F(Deadlines, WhatIsGivenBackSaysNothingAboutTheTimeThatWorkTakes) {
  LeaseDeadlines deadlines;
  compute(deadlines, 1, 20, 1);
  deadlines.granted(2, 2, at(now_));
  deadlines.finished(2, false, at(now_ + 25));
  EXPECT_EQ(deadlines.limit(), LeaseDeadlines::kLeast);
  EXPECT_TRUE(late(deadlines, now_ + 50).empty()) << "the second one has begun 25 s later";
  EXPECT_EQ(late(deadlines, now_ + 56), std::vector<uint64_t>{2});
}

TEST_F(Deadlines, AWorkerThatIsForgottenIsNeverLate) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, 3, at(0));
  deadlines.forget(1);
  deadlines.finished(1, true, at(600));
  EXPECT_TRUE(late(deadlines, 1000).empty());
  compute(deadlines, 2, 20, 1);
  deadlines.granted(1, 1, at(1000));
  EXPECT_TRUE(late(deadlines, 1004).empty());
}

TEST_F(Deadlines, NobodyIsLateForATimeInWhichTheJobWasHeldUp) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, 1, at(0));
  deadlines.grant_time(at(100));
  EXPECT_TRUE(late(deadlines, 104).empty());
  EXPECT_EQ(late(deadlines, 106), std::vector<uint64_t>{1});
}

}  // namespace
}  // namespace embers
