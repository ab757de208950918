// Whom a launcher starts, and when: the policy on a clock that the tests turn.
#include "apps/launch/policy.h"

#include <gtest/gtest.h>

#include <set>

namespace embers::launch {
namespace {

using Labels = std::vector<std::string>;

const Ending kWell{0, "status 0"}, kBadly{1, "status 1"}, kKilled{137, "signal 9"};

Member worker(uint32_t number) { return {Kind::kWorker, number}; }
Member shard(uint32_t number) { return {Kind::kShard, number}; }

// A launcher and its job, which has begun unless the test says otherwise.
class PolicyTest : public testing::Test {
 protected:
  static constexpr Seconds kStep = 0.25;  // between two looks of the launcher

  void launch(const PolicyOptions& options) {
    policy_.emplace(options);
    view_.workers_wanted = options.workers;
    view_.begun = true;
    EXPECT_EQ(due(), Labels{"master"});
    policy_->on_master_listens();
  }

  // Labels of those that are to be started now.
  Labels due() {
    Labels labels;
    for (const Member& member : policy_->due(now_)) {
      labels.push_back(member.label());
      restarts_[member.label()] = member.restart;
    }
    return labels;
  }
  // The master answers.
  void hear() {
    now_ += kStep;
    policy_->on_view(view_, now_);
  }
  // It says that this one joined long enough ago, and whether it has done something.
  void joins(const std::string& label, bool useful) {
    now_ += kStep;
    view_.members[label] = {0, useful};
    view_.known.insert(label);
    hear();
  }
  void ends(const Member& member, const Ending& ending) {
    now_ += kStep;
    view_.members.erase(member.label());
    view_.known.erase(member.label());
    view_.misses_shards |= member.kind == Kind::kShard;
    policy_->on_end(member, ending, now_);
  }
  // Lets time pass, with an answer of the master at every step; who is started then, and when from now.
  std::vector<std::pair<Seconds, std::string>> wait(Seconds seconds) {
    std::vector<std::pair<Seconds, std::string>> started;
    for (const Seconds begin = now_; now_ < begin + seconds;) {
      hear();
      for (const std::string& label : due()) started.emplace_back(now_ - begin, label);
    }
    return started;
  }

  std::optional<Policy> policy_;
  JobView view_;
  Seconds now_ = 100;
  std::map<std::string, uint32_t> restarts_;  // of the last start
};

TEST_F(PolicyTest, TheMasterIsStartedFirstAndTheOthersOnceItListens) {
  policy_.emplace(PolicyOptions{.shards = 2, .workers = 3});
  EXPECT_EQ(due(), Labels{"master"});
  EXPECT_EQ(due(), Labels());
  policy_->on_master_listens();
  EXPECT_EQ(due(), (Labels{"s0", "s1", "w0", "w1", "w2"}));
  EXPECT_EQ(due(), Labels());
}

TEST_F(PolicyTest, ManyAreStartedAFewAtATime) {
  launch({.shards = 10, .workers = 1000});
  std::set<std::string> started;
  for (size_t looks = 0; started.size() < 1010; ++looks) {
    ASSERT_LT(looks, 1010);
    const Labels labels = due();
    ASSERT_LE(labels.size(), Policy::kAtOnce);
    started.insert(labels.begin(), labels.end());
    if (looks == 0) {
      EXPECT_TRUE(started.contains("s9"));
    }
  }
  EXPECT_EQ(due(), Labels());
}

TEST_F(PolicyTest, NobodyIsStartedAfterTheMasterHasEnded) {
  launch({.shards = 1, .workers = 1});
  ends({Kind::kMaster}, kBadly);
  EXPECT_EQ(wait(60).size(), 0);
}

TEST_F(PolicyTest, AWorkerThatDiesIsStartedAgainOnceTheMasterHasBeenHeard) {
  launch({.shards = 1, .workers = 2});
  due();
  joins("w1", true);
  ends(worker(1), kKilled);
  now_ += 10;
  EXPECT_EQ(due(), Labels());
  hear();
  EXPECT_EQ(due(), Labels{"w1"});
  EXPECT_EQ(restarts_["w1"], 1);
}

TEST_F(PolicyTest, ADyingWorkerComesBackAfterTwiceAsLongEachTime) {
  launch({.shards = 1, .workers = 1, .max_restarts = 7});
  due();
  std::vector<Seconds> delays;
  for (int i = 0; i < 7; ++i) {
    ends(worker(0), kBadly);
    const auto started = wait(60);
    ASSERT_EQ(started.size(), 1);
    delays.push_back(started[0].first);
  }
  EXPECT_EQ(delays, (std::vector<Seconds>{1, 2, 4, 8, 16, 30, 30}));
}

TEST_F(PolicyTest, AWorkerThatGotSomethingDoneCountsAsStartedForTheFirstTime) {
  launch({.shards = 1, .workers = 1, .max_restarts = 1});
  due();
  for (int i = 0; i < 5; ++i) {
    joins("w0", true);
    ends(worker(0), kKilled);
    EXPECT_EQ(wait(2).size(), 1);
    EXPECT_EQ(restarts_["w0"], 1);
  }
  EXPECT_FALSE(policy_->hopeless());
}

TEST_F(PolicyTest, WhatTheProcessBeforeGotDoneDoesNotCount) {
  launch({.shards = 1, .workers = 2, .max_restarts = 1});
  due();
  joins("w0", true);
  ends(worker(0), kKilled);
  EXPECT_EQ(wait(2).size(), 1);
  // The master has not noticed yet that it has gone.
  view_.members["w0"] = {3600, true};
  hear();
  ends(worker(0), kKilled);
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_EQ(policy_->take_given_up().size(), 1);
}

TEST_F(PolicyTest, AWorkerThatNeverWorksIsGivenUpOnAndWithItTheJob) {
  launch({.shards = 1, .workers = 1, .max_restarts = 2});
  due();
  for (int i = 0; i < 2; ++i) {
    ends(worker(0), kBadly);
    EXPECT_EQ(wait(10).size(), 1);
    EXPECT_FALSE(policy_->hopeless());
  }
  ends(worker(0), {2, "status 2"});
  EXPECT_EQ(wait(60).size(), 0);
  const auto given_up = policy_->take_given_up();
  ASSERT_EQ(given_up.size(), 1);
  EXPECT_EQ(given_up[0].member.label(), "w0");
  EXPECT_EQ(given_up[0].starts, 3);
  ASSERT_TRUE(policy_->hopeless());
  EXPECT_EQ(policy_->hopeless()->ending.status, 2);
}

TEST_F(PolicyTest, NoMemberIsStartedAgainWithoutRestarts) {
  launch({.shards = 1, .workers = 1, .max_restarts = 0});
  due();
  joins("w0", true);
  ends(worker(0), kKilled);
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_TRUE(policy_->hopeless());
}

TEST_F(PolicyTest, AJobGoesOnWithoutAWorkerThatIsGivenUpOnAndNobodyTakesItsPlace) {
  launch({.shards = 1, .workers = 3, .max_restarts = 0});
  due();
  ends(worker(1), kBadly);
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_EQ(policy_->take_given_up().size(), 1);
  EXPECT_FALSE(policy_->hopeless());
  ends(worker(0), kBadly);
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_FALSE(policy_->hopeless());
  ends(worker(2), kBadly);
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_TRUE(policy_->hopeless());
}

TEST_F(PolicyTest, AJobIsHopelessWhenTheOnlyWorkerThatIsWantedWasGivenUpOn) {
  launch({.shards = 1, .workers = 2, .max_restarts = 0});
  due();
  ends(worker(0), kBadly);
  EXPECT_EQ(wait(10).size(), 0);
  joins("w1", true);
  view_.workers_wanted = 1;
  ends(worker(1), kWell);
  EXPECT_EQ(wait(10).size(), 0);
  EXPECT_TRUE(policy_->hopeless());
}

TEST_F(PolicyTest, WorkersOfOthersKeepAJobWithoutOwnOnesAlive) {
  launch({.shards = 1, .workers = 1, .max_restarts = 0});
  due();
  view_.other_workers = 1;
  view_.workers_wanted = 2;
  hear();
  ends(worker(0), kBadly);
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_FALSE(policy_->hopeless());
}

TEST_F(PolicyTest, AJobThatHasNotBegunNeedsAllItsWorkers) {
  launch({.shards = 1, .workers = 2, .max_restarts = 0});
  view_.begun = false;
  due();
  ends(worker(1), kBadly);
  EXPECT_EQ(wait(10).size(), 0);
  EXPECT_TRUE(policy_->hopeless());
}

TEST_F(PolicyTest, WhoAsksForMoreWorkersGetsAnotherAttemptAtThoseGivenUpOn) {
  launch({.shards = 1, .workers = 2, .max_restarts = 0});
  due();
  ends(worker(1), kBadly);
  EXPECT_EQ(wait(10).size(), 0);
  view_.workers_wanted = 3;
  hear();
  EXPECT_EQ(due(), (Labels{"w1", "w2"}));
}

TEST_F(PolicyTest, MoreWorkersAreStartedWhenTheMasterWantsMore) {
  launch({.shards = 1, .workers = 2});
  due();
  view_.workers_wanted = 4;
  hear();
  EXPECT_EQ(due(), (Labels{"w2", "w3"}));
  EXPECT_EQ(wait(60).size(), 0);
}

TEST_F(PolicyTest, DrainedWorkersAreNotReplacedAndTheirPlacesAreFilledAgainLater) {
  launch({.shards = 1, .workers = 3});
  due();
  for (const char* label : {"w0", "w1", "w2"}) joins(label, true);
  view_.workers_wanted = 1;  // the launcher has not heard of it when the first one ends
  ends(worker(2), kWell);
  EXPECT_EQ(due(), Labels());
  hear();
  EXPECT_EQ(due(), Labels());
  ends(worker(1), kWell);
  EXPECT_EQ(wait(60).size(), 0);
  view_.workers_wanted = 2;
  hear();
  EXPECT_EQ(due(), Labels{"w1"});
  EXPECT_EQ(restarts_["w1"], 0);
}

TEST_F(PolicyTest, WorkersThatOthersStartedCount) {
  launch({.shards = 1, .workers = 1});
  due();
  view_.workers_wanted = 4;
  view_.other_workers = 2;
  hear();
  EXPECT_EQ(due(), Labels{"w1"});
  view_.other_workers = 0;
  hear();
  EXPECT_EQ(due(), (Labels{"w2", "w3"}));
}

TEST_F(PolicyTest, NobodyIsStartedOnceTheJobIsEnding) {
  launch({.shards = 1, .workers = 2});
  due();
  joins("w0", true);
  view_.ending = true;
  ends(worker(0), kWell);
  ends(worker(1), kBadly);
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_FALSE(policy_->hopeless());
}

TEST_F(PolicyTest, NobodyIsStartedOnceTheUserHasStoppedTheJob) {
  launch({.shards = 1, .workers = 2, .shards_return = true});
  due();
  policy_->on_stop();
  ends(worker(0), kKilled);
  ends(shard(0), kKilled);
  EXPECT_EQ(wait(60).size(), 0);
}

TEST_F(PolicyTest, AShardOfAJobWithAJournalComesBack) {
  launch({.shards = 2, .workers = 1, .shards_return = true});
  due();
  joins("s1", true);
  ends(shard(1), kKilled);
  const auto started = wait(5);
  ASSERT_EQ(started.size(), 1);
  EXPECT_EQ(started[0].second, "s1");
}

TEST_F(PolicyTest, AShardThatNeverComesBackIsGivenUpOnAndWithItTheJob) {
  launch({.shards = 2, .workers = 1, .shards_return = true, .max_restarts = 1});
  due();
  ends(shard(0), kBadly);
  EXPECT_EQ(wait(5).size(), 1);
  ends(shard(0), kBadly);
  EXPECT_EQ(wait(5).size(), 0);
  ASSERT_TRUE(policy_->hopeless());
  EXPECT_EQ(policy_->hopeless()->member.label(), "s0");
}

TEST_F(PolicyTest, AShardThatHasJoinedAJobWithoutAJournalIsLeftToItsMaster) {
  launch({.shards = 1, .workers = 1});
  due();
  joins("s0", false);
  ends(shard(0), kKilled);
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_FALSE(policy_->hopeless());
}

TEST_F(PolicyTest, AShardThatIsLostBeforeTheJobHasBegunIsStartedAgain) {
  launch({.shards = 2, .workers = 1});
  view_.begun = false;
  due();
  joins("s0", false);
  joins("s1", false);
  ends(shard(1), kKilled);
  ASSERT_EQ(wait(5).size(), 1);
  EXPECT_EQ(restarts_.at("s1"), 1);
  EXPECT_FALSE(policy_->hopeless());
}

TEST_F(PolicyTest, AShardThatDiesAgainAndAgainBeforeTheJobHasBegunIsGivenUpOn) {
  launch({.shards = 1, .workers = 1, .max_restarts = 2});
  view_.begun = false;
  due();
  for (int i = 0; i < 3; ++i) {
    joins("s0", true);
    ends(shard(0), kKilled);
    EXPECT_EQ(wait(30).size(), i < 2 ? 1 : 0);
  }
  ASSERT_TRUE(policy_->hopeless());
  EXPECT_EQ(policy_->hopeless()->member.label(), "s0");
}

// Where the master has not ended the job: its worker was refused, say.
TEST_F(PolicyTest, AWorkerWithRowsThatDiesBeforeTheJobHasBegunIsStartedAgain) {
  launch({.shards = 0, .workers = 2, .owners = 2});
  view_.begun = false;
  view_.misses_shards = true;
  due();
  joins("w1", false);
  ends(worker(1), kKilled);
  EXPECT_EQ(wait(5).size(), 1);
  EXPECT_FALSE(policy_->hopeless());
}

// The last answer was from before that.
TEST_F(PolicyTest, AShardThatIsLostJustWhenTheJobBeginsIsLeftToItsMaster) {
  launch({.shards = 1, .workers = 1});
  view_.begun = false;
  due();
  joins("s0", false);
  ends(shard(0), kKilled);
  view_.begun = true;
  view_.misses_shards = false;
  EXPECT_EQ(wait(60).size(), 0) << "its master does not know it yet";
  view_.ending = true;
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_FALSE(policy_->hopeless());
}

TEST_F(PolicyTest, AWorkerWhoseRowsAreLostIsLeftToItsMaster) {
  launch({.shards = 0, .workers = 3, .owners = 2});
  EXPECT_EQ(due(), (Labels{"w0", "w1", "w2"}));
  joins("w1", true);
  joins("w2", true);
  ends(worker(1), kKilled);
  view_.misses_shards = true;
  EXPECT_EQ(wait(60).size(), 0);
  ends(worker(2), kKilled);  // which holds none
  EXPECT_EQ(wait(60).size(), 1);
}

TEST_F(PolicyTest, AWorkerWhoseRowsAreInAJournalComesBackOrTheJobIsGivenUpOn) {
  launch({.shards = 0, .workers = 2, .owners = 2, .shards_return = true, .max_restarts = 1});
  due();
  joins("w0", true);
  joins("w1", true);
  ends(worker(1), kKilled);
  view_.misses_shards = true;
  EXPECT_EQ(wait(5).size(), 1);
  ends(worker(1), kBadly);
  EXPECT_EQ(wait(60).size(), 0);
  ASSERT_TRUE(policy_->hopeless());
  EXPECT_EQ(policy_->hopeless()->member.label(), "w1");
}

// Its process may hang, or stand for one on a host that is gone.
TEST_F(PolicyTest, AWorkerThatTheMasterHasLostIsToBeEndedAndThenComesBack) {
  launch({.shards = 1, .workers = 1});
  due();
  joins("w0", true);
  view_.members.erase("w0");
  view_.disconnected.insert("w0");
  hear();
  EXPECT_TRUE(policy_->take_lost().empty()) << "it may come back";
  view_.disconnected.clear();
  view_.known.erase("w0");
  hear();
  const auto lost = policy_->take_lost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].label(), "w0");
  hear();
  EXPECT_TRUE(policy_->take_lost().empty()) << "once";
  ends(worker(0), kKilled);
  EXPECT_EQ(wait(5).size(), 1);
}

TEST_F(PolicyTest, AWorkerThatLeavesOrComesBackOverAnotherConnectionIsNotLost) {
  launch({.shards = 1, .workers = 2});
  due();
  joins("w0", true);
  joins("w1", true);
  view_.members.erase("w0");  // it has left
  view_.known.erase("w0");
  view_.members.erase("w1");
  view_.disconnected.insert("w1");
  hear();
  view_.disconnected.clear();
  view_.members["w1"] = {0, true};
  hear();
  EXPECT_TRUE(policy_->take_lost().empty());
}

TEST_F(PolicyTest, NobodyIsLostWhenTheJobEnds) {
  launch({.shards = 1, .workers = 1});
  due();
  joins("w0", true);
  view_.members.erase("w0");
  view_.disconnected.insert("w0");
  hear();
  view_.disconnected.clear();
  view_.known.erase("w0");
  view_.ending = true;
  hear();
  EXPECT_TRUE(policy_->take_lost().empty());
}

TEST_F(PolicyTest, AShardThatNobodyMissesIsNotStartedAgain) {
  launch({.shards = 1, .workers = 1, .shards_return = true, .max_restarts = 0});
  due();
  ends(shard(0), kBadly);
  view_.misses_shards = false;  // the model has no embedding tables
  EXPECT_EQ(wait(60).size(), 0);
  EXPECT_FALSE(policy_->hopeless());
}

TEST_F(PolicyTest, AShardThatNeverJoinedIsStartedAgainWithoutAJournalToo) {
  launch({.shards = 1, .workers = 1});
  view_.begun = false;
  due();
  ends(shard(0), kBadly);
  EXPECT_EQ(wait(5).size(), 1);
}

}  // namespace
}  // namespace embers::launch
