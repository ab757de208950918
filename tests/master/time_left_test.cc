// How much longer a job will take, by jobs whose pace the test decides.
#include "master/state/progress/time_left.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace embers {
namespace {

using Work = TimeLeft::Kind;

class TimeLeftTest : public testing::Test {
 protected:
  static constexpr double kTick = 1;

  TimeLeft::Time now() const {
    return TimeLeft::Time(
        std::chrono::duration_cast<TimeLeft::Time::duration>(std::chrono::duration<double>(1000 + seconds_)));
  }
  // Looks at the job each tick while it does minibatches that take `each` seconds, the first one `warm_up`
  // more.
  void work(Work kind, uint64_t minibatches, double each, double warm_up = 0) {
    const double begin = seconds_, end = begin + warm_up + each * static_cast<double>(minibatches);
    left_.work(kind, 0, now());
    for (double at = begin + kTick; at < end; at += kTick) {
      seconds_ = at;
      left_.work(kind, static_cast<uint64_t>(std::max(0.0, at - begin - warm_up) / each), now());
    }
    seconds_ = end;
    left_.work(kind, minibatches, now());
  }
  void wait(double seconds) { seconds_ += seconds; }
  void finish() { left_.finish(now()); }
  double left(uint64_t training, uint64_t evaluation = 0, uint64_t epochs = 0) const {
    return left_.seconds({training, evaluation, epochs}).value_or(-1);
  }
  static constexpr double kUnknown = -1;

  double seconds_ = 0;
  TimeLeft left_;
};

TEST_F(TimeLeftTest, IsNotKnownUntilThereIsSomethingToGoBy) {
  EXPECT_EQ(left(100), kUnknown);
  work(Work::kTraining, 1, 1);
  EXPECT_EQ(left(100), kUnknown) << "a minibatch tells nothing";
  work(Work::kTraining, 3, 0.1);
  EXPECT_EQ(left(100), kUnknown) << "neither do three in a moment";
  EXPECT_EQ(left(0), 0);
}

TEST_F(TimeLeftTest, FollowsFromThePaceWithoutTheWarmUp) {
  work(Work::kTraining, 100, 0.1, /*warm_up=*/20);
  EXPECT_NEAR(left(1000), 100, 10);
}

TEST_F(TimeLeftTest, FollowsTheRecentPaceAlone) {
  work(Work::kTraining, 10'000, 0.01);
  EXPECT_NEAR(left(1000), 10, 1);
  finish();
  work(Work::kTraining, 400, 0.1);  // workers left
  EXPECT_NEAR(left(1000), 100, 10);
}

TEST_F(TimeLeftTest, IsKnownForMinibatchesThatTakeMinutes) {
  work(Work::kTraining, 3, 120);
  EXPECT_EQ(left(10), kUnknown);
  left_ = {};
  work(Work::kTraining, 4, 120);
  EXPECT_NEAR(left(10), 1200, 15);
  left_ = {};
  work(Work::kTraining, 50, 120);
  EXPECT_NEAR(left(10), 1200, 15);
}

TEST_F(TimeLeftTest, IsKnownAfterAnEpochHoweverShortItWas) {
  work(Work::kTraining, 10, 0.01);
  EXPECT_EQ(left(10), kUnknown);
  finish();
  EXPECT_NEAR(left(100), 1, 0.01);
}

TEST_F(TimeLeftTest, TakesEvaluationForTrainingUntilItIsKnown) {
  work(Work::kTraining, 1000, 0.1);
  EXPECT_NEAR(left(100, 100), 20, 1);
  finish();
  left_.work(Work::kEvaluation, 0, now());
  EXPECT_NEAR(left(100, 100), 20, 1) << "it has only begun";
  work(Work::kEvaluation, 100, 0.02);
  finish();
  EXPECT_NEAR(left(100, 100), 12, 1);
}

TEST_F(TimeLeftTest, CountsWhatComesBetweenEpochs) {
  work(Work::kTraining, 100, 0.1);
  finish();
  wait(5);
  left_.end_epoch(now());
  EXPECT_NEAR(left(100, 0, 3), 25, 1);
  work(Work::kTraining, 100, 0.1);
  finish();
  wait(7);
  left_.end_epoch(now());
  EXPECT_NEAR(left(100, 0, 3), 28, 1);
}

TEST_F(TimeLeftTest, LeavesOutWhatIsHeldUp) {
  work(Work::kTraining, 100, 0.1);
  left_.pause();
  wait(1000);
  work(Work::kTraining, 100, 0.1);
  EXPECT_NEAR(left(100), 10, 1);
}

TEST_F(TimeLeftTest, IsNotKnownWhileTheJobIsStalled) {
  work(Work::kTraining, 1000, 0.1);
  wait(10);
  left_.work(Work::kTraining, 1000, now());
  EXPECT_GT(left(1000), 120) << "ten seconds without a minibatch count";
  EXPECT_LT(left(1000), 160);
  wait(25);
  left_.work(Work::kTraining, 1000, now());
  EXPECT_EQ(left(1000), kUnknown);
  work(Work::kTraining, 1400, 0.1);
  EXPECT_NEAR(left(1000), 100, 10);
}

TEST_F(TimeLeftTest, IsNotKnownBeyondYears) {
  work(Work::kTraining, 100, 0.1);
  EXPECT_NEAR(left(800'000'000), 8e7, 8e6);
  EXPECT_EQ(left(8'000'000'000), kUnknown);
  EXPECT_EQ(left(UINT64_MAX), kUnknown);
}

// Whatever is said in whatever order, and however time passes.
TEST_F(TimeLeftTest, IsNeverNonsense) {
  std::mt19937_64 random(1);
  const auto pick = [&](uint64_t n) { return random() % n; };
  for (int job = 0; job < 200; ++job) {
    left_ = {};
    for (int step = 0; step < 500; ++step) {
      wait(pick(2) == 0 ? 0 : std::exp2(static_cast<double>(pick(40)) - 25));
      const auto kind = pick(2) == 0 ? Work::kTraining : Work::kEvaluation;
      switch (pick(8)) {
        case 0:
          left_.pause();
          break;
        case 1:
          finish();
          break;
        case 2:
          left_.end_epoch(now());
          break;
        default:
          left_.work(kind, pick(2) == 0 ? pick(10) : pick(1u << 30), now());
      }
      const auto seconds = left_.seconds({pick(1u << 20), pick(1u << 20), pick(100)});
      if (!seconds) continue;
      ASSERT_GE(*seconds, 0);
      ASSERT_LE(*seconds, TimeLeft::kMost);
    }
  }
}

}  // namespace
}  // namespace embers
