#include "master/state/leases/lease_deadlines.h"

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
      deadlines.granted(worker, lease(1), at(now_));
      deadlines.finished(worker, last_lease_, 0, true, at(now_ += seconds));
    }
  }
  // Minibatches 0 to n - 1.
  LeaseBook::Lease lease(uint64_t minibatches) {
    LeaseBook::Lease lease{++last_lease_, {}};
    for (uint64_t m = 0; m < minibatches; ++m) lease.parts.push_back({m, 1});
    return lease;
  }
  static std::vector<uint64_t> late(LeaseDeadlines& deadlines, double seconds) {
    deadlines.newly_late(at(seconds));
    std::vector<uint64_t> workers;
    for (const LeaseDeadlines::Late& l : deadlines.late(at(seconds))) workers.push_back(l.worker);
    return workers;
  }
  double now_ = 0;
  uint64_t last_lease_ = 0;
};

TEST_F(Deadlines, ASettingCountsFromTheFirstMinibatchOn) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, lease(1), at(0));
  deadlines.granted(2, lease(1), at(3));
  EXPECT_TRUE(late(deadlines, 5).empty());
  EXPECT_EQ(late(deadlines, 6), std::vector<uint64_t>{1});
  EXPECT_TRUE(deadlines.is_late(1));
  EXPECT_FALSE(deadlines.is_late(2));
  EXPECT_EQ(late(deadlines, 9), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(deadlines.late(at(9))[0].taken, Duration(9));
}

TEST_F(Deadlines, AWorkerBecomesLateOnceAndIsSoUntilItFinishesSomething) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, lease(3), at(0));
  deadlines.finished(1, 1, 0, true, at(1));
  const auto newly = deadlines.newly_late(at(7));
  ASSERT_EQ(newly.size(), 1);
  EXPECT_EQ(newly[0].minibatch, 1);
  EXPECT_EQ(newly[0].held, 2);
  EXPECT_EQ(newly[0].taken, Duration(6));
  EXPECT_TRUE(deadlines.newly_late(at(8)).empty());
  deadlines.finished(1, 1, 0, true, at(8));
  deadlines.finished(1, 2, 1, true, at(8));
  deadlines.finished(2, 1, 1, true, at(8));
  EXPECT_TRUE(deadlines.is_late(1)) << "it does not hold these";
  deadlines.grant_time(at(8));
  EXPECT_TRUE(deadlines.is_late(1)) << "it was late before";
  deadlines.finished(1, 1, 1, true, at(9));
  EXPECT_FALSE(deadlines.is_late(1));
  EXPECT_EQ(late(deadlines, 15), std::vector<uint64_t>{1}) << "the third one has begun at 9 s";
}

TEST_F(Deadlines, TheEndComesAfterTwiceTheTimeAndNeverSoonUnlessItIsSet) {
  EXPECT_EQ(LeaseDeadlines(Duration(5)).end(), Duration(10));
  LeaseDeadlines deadlines;
  EXPECT_EQ(deadlines.end(), 2 * LeaseDeadlines::kFirst);
  compute(deadlines, 1, 20, 1);
  EXPECT_EQ(deadlines.end(), LeaseDeadlines::kFirst);
  compute(deadlines, 1, 1, 60);
  EXPECT_NEAR(deadlines.end().count(), 1200, 1e-3);
}

TEST_F(Deadlines, AMinibatchThatWaitsBehindAnotherHasNotBegun) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, lease(4), at(0));
  for (int i = 1; i <= 4; ++i) {
    EXPECT_TRUE(late(deadlines, 4 * i).empty()) << i;
    deadlines.finished(1, 1, static_cast<uint64_t>(i - 1), true, at(4 * i));
  }
  EXPECT_TRUE(late(deadlines, 1000).empty()) << "it holds nothing";
  deadlines.granted(1, lease(1), at(1000));
  deadlines.granted(1, lease(1), at(1004));
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
  deadlines.granted(2, lease(2), at(now_));
  deadlines.finished(2, last_lease_, 0, false, at(now_ + 25));
  EXPECT_EQ(deadlines.limit(), LeaseDeadlines::kLeast);
  EXPECT_TRUE(late(deadlines, now_ + 50).empty()) << "the second one has begun 25 s later";
  EXPECT_EQ(late(deadlines, now_ + 56), std::vector<uint64_t>{2});
}

TEST_F(Deadlines, AWorkerThatWaitsToBeginIsLateOnlyForWhatItHasBegun) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, lease(3), at(0));
  deadlines.asks(1, at(1));
  EXPECT_TRUE(late(deadlines, 100).empty());
  deadlines.answered(1, 1, 0, true, at(100));
  deadlines.asks(1, at(101));  // it computes minibatch 0, and wants to begin 1
  EXPECT_TRUE(late(deadlines, 106).empty());
  EXPECT_EQ(late(deadlines, 107), std::vector<uint64_t>{1});
  deadlines.answered(1, 1, 1, false, at(108));
  ASSERT_TRUE(deadlines.is_late(1)) << "the answer says nothing about it";
  EXPECT_EQ(deadlines.late(at(108))[0].taken, Duration(7));
  deadlines.finished(1, 1, 0, true, at(109));
  EXPECT_FALSE(deadlines.is_late(1));
  deadlines.asks(1, at(110));
  EXPECT_TRUE(late(deadlines, 200).empty()) << "it has begun nothing";
  deadlines.answered(1, 1, 1, true, at(200));
  deadlines.asks(1, at(201));
  deadlines.finished(1, 1, 1, true, at(202));
  EXPECT_TRUE(late(deadlines, 300).empty()) << "the question alone is left";
  deadlines.disconnected(1, at(300));
  EXPECT_TRUE(late(deadlines, 304).empty());
  EXPECT_EQ(late(deadlines, 306), std::vector<uint64_t>{1}) << "it asks for nothing any more";
}

TEST_F(Deadlines, AnAnswerGivesWhatIsUnderWayNoMoreTime) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, lease(3), at(0));
  deadlines.asks(1, at(0));
  deadlines.answered(1, 1, 0, true, at(0));
  deadlines.asks(1, at(1));
  deadlines.answered(1, 1, 1, true, at(4));
  EXPECT_TRUE(late(deadlines, 5).empty());
  EXPECT_EQ(late(deadlines, 7), std::vector<uint64_t>{1});
}

// Whether it asks while it computes, or its questions overtake the word that what it computed is done.
TEST_F(Deadlines, QuestionsMakeNoMinibatchShorter) {
  for (const double ahead : {4.0, -0.01}) {
    LeaseDeadlines deadlines;
    deadlines.granted(1, lease(31), at(0));
    deadlines.asks(1, at(0));
    deadlines.answered(1, last_lease_, 0, true, at(0));
    for (uint64_t m = 0; m < 30; ++m) {
      const double end = static_cast<double>(m + 1) * 5;
      deadlines.asks(1, at(end - ahead));
      deadlines.answered(1, last_lease_, m + 1, true, at(end - ahead));
      deadlines.finished(1, last_lease_, m, true, at(end + 0.02));
    }
    EXPECT_NEAR(deadlines.limit().count(), 50, 0.5) << ahead;
  }
}

// A pause between two minibatches is no work.
TEST_F(Deadlines, AMinibatchBeginsWhenItsWorkerSaysSo) {
  LeaseDeadlines deadlines;
  deadlines.granted(1, lease(20), at(0));
  for (uint64_t m = 0; m < 20; ++m) {
    deadlines.asks(1, at(now_ += 60));
    deadlines.answered(1, 1, m, true, at(now_));
    deadlines.finished(1, 1, m, true, at(now_ += 1));
  }
  EXPECT_EQ(deadlines.limit(), LeaseDeadlines::kLeast);
}

TEST_F(Deadlines, AWorkerThatIsForgottenIsNeverLate) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, lease(3), at(0));
  deadlines.forget(1);
  deadlines.finished(1, last_lease_, 0, true, at(600));
  EXPECT_TRUE(late(deadlines, 1000).empty());
  compute(deadlines, 2, 20, 1);
  deadlines.granted(1, lease(1), at(1000));
  EXPECT_TRUE(late(deadlines, 1004).empty());
}

TEST_F(Deadlines, NobodyIsLateForATimeInWhichTheJobWasHeldUp) {
  LeaseDeadlines deadlines(Duration(5));
  deadlines.granted(1, lease(1), at(0));
  deadlines.grant_time(at(100));
  EXPECT_TRUE(late(deadlines, 104).empty());
  EXPECT_EQ(late(deadlines, 106), std::vector<uint64_t>{1});
}

}  // namespace
}  // namespace embers
