// Members that are gone before the master has noticed it, that it cannot reach, or that it need not wait for.
#include "tests/master/members_testing.h"

namespace embers {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;

class MissingMembers : public MembersTest {
 protected:
  using MembersTest::MembersTest;
  void keep_a_journal() {
    config_->job.storage.backend = "redis";
    config_->job.storage.journal = "journal";
  }
  bool is_open(Ticket ticket) const { return !answers_.contains(ticket) && !refusals_.contains(ticket); }
  std::string refusal(Ticket ticket) const {
    const auto found = refusals_.find(ticket);
    return found == refusals_.end() ? "" : found->second.what();
  }
  // Both workers compute all there is, and the job is about to end.
  void finish_all() {
    const Ticket of_a = ask_for_work(a_, 0), of_b = ask_for_work(b_, 0);
    for (const size_t i : {0, 1}) {
      EXPECT_TRUE(done(a_, of_a, i));
      EXPECT_TRUE(done(b_, of_b, i));
    }
    OwnerCounts all;
    all.sums.examples = 40;
    all.sums.minibatches = 4;
    for (const Effect::Ask& a : std::exchange(asks_, {}))
      give(Event::OwnerAnswered{a.number, a.incarnation, a.id, all});
  }
};

// --- the next process of a shard whose end was not noticed yet ---------------------------------------

TEST_F(MissingMembers, AShardThatComesBeforeItsLossIsNoticedWaitsAndThenTakesThePlace) {
  keep_a_journal();
  begin();
  const Ticket next = ask(owner(200));
  EXPECT_TRUE(is_open(next)) << refusal(next);
  pass(2s, {a_, b_, owner_});
  EXPECT_TRUE(is_open(next)) << refusal(next);
  give(Event::OwnerDown{0, owner_, "the connection ended"});
  ASSERT_EQ(connects_.size(), 2u) << said_;
  give(Event::Connected{connects_.back().incarnation});
  EXPECT_TRUE(joined(next).takes_over);
  EXPECT_EQ(joined(next).number, 0u);
  answer_owner();
  answer_owner();  // that it knows the new map
  EXPECT_EQ(minibatches(ask_for_work(a_, 0)), (std::vector<uint64_t>{0, 1})) << said_;
}

TEST_F(MissingMembers, AShardThatOnlyItsSilenceGivesAwayIsReplacedByTheOneThatWaits) {
  keep_a_journal();
  begin();
  const Ticket next = ask(owner(200));
  pass(6s, {a_, b_});
  ASSERT_EQ(connects_.size(), 2u) << said_;
  give(Event::Connected{connects_.back().incarnation});
  EXPECT_TRUE(joined(next).takes_over);
}

TEST_F(MissingMembers, AShardThatIsOneTooManyIsToldSoOnceNobodyCanBeLostUnnoticed) {
  keep_a_journal();
  begin();
  const Ticket surplus = ask(owner(200));
  pass(4s, {a_, b_, owner_});
  EXPECT_TRUE(is_open(surplus));
  pass(6s, {a_, b_, owner_});
  EXPECT_NE(refusal(surplus).find("all have joined"), std::string::npos) << refusal(surplus);
  EXPECT_EQ(refusals_.at(surplus).code(), ErrorCode::kInvalid);
}

TEST_F(MissingMembers, AShardDoesNotWaitForWhatCannotHappen) {
  begin();  // without a journal the loss of a shard ends the job
  EXPECT_FALSE(is_open(ask(owner(200))));
  keep_a_journal();
  Event::Join two = owner(201);
  two.more = 1;
  EXPECT_FALSE(is_open(ask(two))) << "this job has one shard";
}

TEST_F(MissingMembers, AShardThatWaitsMayAskAgainAndGo) {
  keep_a_journal();
  begin();
  const Ticket first = ask(owner(200));
  Event::Join again = owner(200);
  again.link = 201;
  const Ticket second = ask(again);
  EXPECT_FALSE(is_open(first)) << "one waits, not two";
  EXPECT_TRUE(is_open(second));
  give(Event::LinkDown{200, "an end that is noticed late"});
  EXPECT_TRUE(is_open(second));
  give(Event::LinkDown{201, "reset"});
  EXPECT_FALSE(is_open(second));
  give(Event::OwnerDown{0, owner_, "the connection ended"});
  EXPECT_EQ(connects_.size(), 1u) << "nobody waits any more";
  const Ticket last = ask(owner(202));
  ASSERT_EQ(connects_.size(), 2u);
  give(Event::Connected{connects_.back().incarnation});
  EXPECT_TRUE(joined(last).takes_over);
}

TEST_F(MissingMembers, AShardThatWaitsIsToldOfTheJobsFailure) {
  keep_a_journal();
  begin();
  const Ticket next = ask(owner(200));
  ask(Event::Fail{0, b_, Error(ErrorCode::kInvalid, "bad data")});
  EXPECT_EQ(refusal(next), "bad data");
}

// --- a shard that the master does not reach ------------------------------------------------------------

TEST_F(MissingMembers, AShardThatIsNotReachedIsRefusedAloneAndAnotherOneTakesItsPlace) {
  const Ticket first = ask(owner(100));
  const uint64_t incarnation = connects_.back().incarnation;
  give(Event::Connected{incarnation});
  EXPECT_EQ(joined(first).incarnation, incarnation) << "it serves only once it has joined";
  ask(worker(1));
  ask(worker(2));
  EXPECT_FALSE(prepares_) << "nobody knows yet whether the shard is reached";
  give(Event::OwnerDown{0, incarnation, "cannot reach there:7000: Connection refused"});
  EXPECT_EQ(state_.phase(), Phase::kGathering) << (state_.error() ? state_.error()->what() : "");
  const Ticket beat = ask(Event::Heartbeat{0, incarnation});
  for (const char* text :
       {"the master cannot reach shard 0", "there:7000: Connection refused", "--advertise"})
    EXPECT_NE(refusal(beat).find(text), std::string::npos) << refusal(beat);
  EXPECT_EQ(exit_status(refusals_.at(beat).code()), 2);
  EXPECT_TRUE(has_said("the job waits for another shard process")) << said_;
  EXPECT_FALSE(prepares_);
  Event::Join next = owner(200);
  ask(next);
  give(Event::Connected{connects_.back().incarnation});
  EXPECT_FALSE(prepares_);
  answer_owner();
  EXPECT_TRUE(prepares_);
}

TEST_F(MissingMembers, AShardThatRefusesTheMasterIsRefusedWithItsReason) {
  ask(owner(100));
  const uint64_t incarnation = connects_.back().incarnation;
  give(Event::Connected{incarnation});
  ASSERT_EQ(asks_.size(), 1u);
  give(Event::OwnerFailed{0, incarnation, asks_[0].id,
                          Error(ErrorCode::kDenied, "it does not know the secret")});
  EXPECT_EQ(state_.phase(), Phase::kGathering);
  EXPECT_EQ(refusals_.at(ask(Event::Heartbeat{0, incarnation})).code(), ErrorCode::kDenied);
}

TEST_F(MissingMembers, AShardThatCannotOpenItsStoreLeavesItsPlaceToAnotherOne) {
  ask(owner(100));
  const uint64_t incarnation = connects_.back().incarnation;
  give(Event::Connected{incarnation});
  ask(Event::Leave{0, incarnation, "cannot write journal/0: Permission denied"});
  EXPECT_EQ(state_.phase(), Phase::kGathering) << (state_.error() ? state_.error()->what() : "");
  EXPECT_TRUE(has_said("cannot write journal/0: Permission denied; the job waits for another shard process"))
      << said_;
  ask(owner(200));
  give(Event::Connected{connects_.back().incarnation});
  ask(worker(1));
  ask(worker(2));
  EXPECT_FALSE(prepares_);
  answer_owner();
  EXPECT_TRUE(prepares_);
}

// --- a shard that is lost before the job has begun -----------------------------------------------------

TEST_F(MissingMembers, AShardThatIsLostBeforeTheJobHasBegunLeavesItsPlaceToAnotherOne) {
  const uint64_t lost = join_owner();
  give(Event::OwnerDown{0, lost, "the connection ended"});
  ASSERT_FALSE(state_.error()) << state_.error()->what();
  EXPECT_TRUE(has_said("lost shard 0")) << said_;
  EXPECT_TRUE(has_said("the job waits for another shard process")) << said_;
  EXPECT_EQ(state_.status(now_).shards.lost, 1u);
  EXPECT_EQ(state_.status(now_).shards.joined, 0u);
  EXPECT_EQ(refusals_.at(ask(Event::Heartbeat{0, lost})).code(), ErrorCode::kFenced);
  ask(worker(1));
  ask(worker(2));
  EXPECT_FALSE(prepares_) << "a shard is missing";
  const Ticket next = ask(owner(200));
  give(Event::Connected{connects_.back().incarnation});
  EXPECT_FALSE(joined(next).takes_over) << "there is nothing to take over";
  EXPECT_FALSE(prepares_);
  answer_owner();
  EXPECT_TRUE(prepares_);
}

TEST_F(MissingMembers, AShardThatIsSilentBeforeTheJobHasBegunLeavesItsPlaceToAnotherOne) {
  join_owner();
  pass(11s, {});
  ASSERT_FALSE(state_.error()) << state_.error()->what();
  EXPECT_TRUE(has_said("the job waits for another shard process")) << said_;
  ask(owner(200));
  EXPECT_EQ(connects_.size(), 2u) << said_;
}

class MissingOfTwo : public MissingMembers {
 protected:
  MissingOfTwo() : MissingMembers(2) {}
};

TEST_F(MissingOfTwo, AWorkerThatWaitsIsNotTroubledByIt) {
  const Ticket waits = ask(worker(1));
  const uint64_t lost = join_owner();
  EXPECT_TRUE(is_open(waits));
  give(Event::OwnerDown{0, lost, "the connection ended"});
  ASSERT_FALSE(state_.error()) << state_.error()->what();
  EXPECT_TRUE(is_open(waits));
  join_owner();
  ask(owner(200));
  give(Event::Connected{connects_.back().incarnation});
  answer_owner();
  EXPECT_FALSE(is_open(waits));
}

// It looks for that one.
TEST_F(MissingMembers, AShardThatAWorkerWasToldOfEndsTheJobWhenItIsLost) {
  const uint64_t lost = join_owner();
  joined(ask(worker(1)));
  ASSERT_EQ(state_.phase(), Phase::kGathering);
  give(Event::OwnerDown{0, lost, "the connection ended"});
  ASSERT_TRUE(state_.error());
  EXPECT_EQ(state_.error()->code(), ErrorCode::kLost);
}

// The worker would stay, and nobody would start its shard again.
TEST_F(MissingOfTwo, AShardOfAProcessThatIsAWorkerTooEndsTheJobWhenItAloneIsLost) {
  Event::Join first = owner(100), second = worker(1);
  second.host = first.host;
  first.pid = second.pid = 7;
  ask(first);
  const uint64_t lost = connects_.back().incarnation;
  give(Event::Connected{lost});
  answer_owner();
  EXPECT_TRUE(is_open(ask(second)));
  give(Event::OwnerDown{0, lost, "the connection ended"});
  ASSERT_TRUE(state_.error());
}

TEST_F(MissingMembers, AShardThatIsLostWhileTheJobIsPreparedEndsIt) {
  const uint64_t lost = join_owner();
  ask(worker(1));
  ask(worker(2));
  ASSERT_TRUE(prepares_);
  give(Event::OwnerDown{0, lost, "the connection ended"});
  ASSERT_TRUE(state_.error());
  EXPECT_NE(std::string(state_.error()->what()).find("lost shard 0"), std::string::npos)
      << state_.error()->what();
}

// --- workers that are gone at the end ------------------------------------------------------------------

TEST_F(MissingMembers, AWorkerThatEndedItsConnectionHoldsUpNoJobThatIsDone) {
  begin();
  finish_all();
  ASSERT_EQ(state_.phase(), Phase::kSaving) << said_;
  give(Event::LinkDown{1, "reset", true});
  pass(1s, {b_, owner_});
  give(Event::Saved{});
  ASSERT_EQ(state_.phase(), Phase::kEnding);
  ask(Event::Leave{0, b_});
  EXPECT_EQ(state_.phase(), Phase::kClosing) << "all is done, and all who are there have left";
  EXPECT_EQ(state_.report().workers_lost, 1u);
}

TEST_F(MissingMembers, AWorkerWhoseConnectionWasCutHasAMomentToComeBack) {
  begin();
  finish_all();
  give(Event::LinkDown{1, "reset", true});
  give(Event::Saved{});
  ask(Event::Leave{0, b_});
  EXPECT_EQ(state_.phase(), Phase::kEnding);
  give(Event::Reconnected{a_, 11});
  pass(3s, {a_, owner_});
  EXPECT_EQ(state_.phase(), Phase::kEnding) << "it is there, and is told of the end when it asks";
  ask(Event::Leave{0, a_});
  EXPECT_EQ(state_.phase(), Phase::kClosing);
  EXPECT_EQ(state_.report().workers_lost, 0u);
}

TEST_F(MissingMembers, AWorkerThatIsOnlyUnheardMayComeBackForAsLongAsAnyOther) {
  begin();
  finish_all();
  give(Event::LinkDown{1, "no sign of life for 2 s", false});
  give(Event::Saved{});
  ask(Event::Leave{0, b_});
  pass(3s, {owner_});
  EXPECT_EQ(state_.phase(), Phase::kEnding);
  pass(3s, {owner_});
  EXPECT_EQ(state_.phase(), Phase::kClosing);
}

}  // namespace
}  // namespace embers
