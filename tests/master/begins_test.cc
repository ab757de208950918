// Workers with a window that ask to begin what they have drawn.
#include "tests/master/members_testing.h"

namespace embers {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;
using Numbers = std::vector<uint64_t>;

class Begins : public MembersTest {
 protected:
  void begin(uint32_t workers) {
    config_->workers = workers;
    config_->train_minibatches = 20;
    owner_ = join_owner();
    std::vector<Ticket> joins;
    for (uint64_t number = 1; number <= workers; ++number) {
      Event::Join join = worker(number);
      join.window = 4;
      joins.push_back(ask(join));
    }
    for (const Ticket ticket : joins) workers_.push_back(joined(ticket).incarnation);
    give(Event::Prepared{});
    answer_owner();
    ASSERT_EQ(state_.phase(), Phase::kTraining);
  }
  std::vector<uint64_t> all() const {
    std::vector<uint64_t> all = workers_;
    all.push_back(owner_);
    return all;
  }
  Ticket ask_to_begin(uint64_t worker, Ticket drawn) {
    const auto& granted = std::get<Reply::Lease>(answers_.at(drawn)).lease;
    return ask(
        Event::Begin{0, worker, granted.id, granted.parts.at(0).minibatch, granted.parts.at(0).attempt});
  }
  // Nothing while it waits.
  std::optional<bool> begun(Ticket ticket) {
    const auto found = answers_.find(ticket);
    if (found == answers_.end()) return std::nullopt;
    return std::get<Reply::Begin>(found->second).begun;
  }

  std::vector<uint64_t> workers_;  // incarnations
};

// An answer may be lost with a connection.
TEST_F(Begins, WhatHasBegunIsSaidAgainWhateverIsWanted) {
  begin(2);
  const uint64_t a = workers_[0];
  const Ticket first = ask_for_work(a, 0), second = ask_for_work(a, lease_of(first));
  EXPECT_EQ(begun(ask_to_begin(a, first)), true);
  ask(Event::Checkpoint{0, 1, "there"});
  give(Event::LinkDown{1, "reset"});
  give(Event::Reconnected{a, 11});
  EXPECT_EQ(begun(ask_to_begin(a, first)), true);
  const Ticket next = ask_to_begin(a, second);
  EXPECT_EQ(begun(next), std::nullopt) << "nothing new is begun";
  EXPECT_TRUE(done(a, first, 0));
  EXPECT_EQ(state_.phase(), Phase::kCheckpointing);
  EXPECT_EQ(begun(next), std::nullopt) << "nor while it is written";
  EXPECT_FALSE(refusals_.contains(next));
}

TEST_F(Begins, WhatIsNoLongerHeldIsRefusedWhateverIsWanted) {
  begin(2);
  const uint64_t a = workers_[0], b = workers_[1];
  const Ticket of_a = ask_for_work(a, 0);
  give(Event::LinkDown{1, "reset"});
  const Ticket of_b = ask_for_work(b, 0);
  EXPECT_EQ(minibatches(of_b), Numbers{0});
  EXPECT_EQ(begun(ask_to_begin(b, of_b)), true);
  give(Event::Reconnected{a, 11});
  ask(Event::Checkpoint{0, 1, "there"});
  EXPECT_EQ(begun(ask_to_begin(a, of_a)), false);
}

TEST_F(Begins, AHangIsNoticedThoughItsWorkerHasAskedForMore) {
  begin(2);
  const uint64_t a = workers_[0], b = workers_[1];
  const Ticket first = ask_for_work(a, 0), second = ask_for_work(a, lease_of(first));
  EXPECT_EQ(begun(ask_to_begin(a, first)), true);
  ask(Event::Checkpoint{0, 1, "there"});
  const Ticket next = ask_to_begin(a, second);
  const Ticket of_b = ask_for_work(b, 0);  // drawn, not begun
  EXPECT_EQ(minibatches(of_b), Numbers{2});
  pass(300s, all());
  EXPECT_EQ(begun(next), std::nullopt);
  EXPECT_EQ(begun(ask_to_begin(b, of_b)), std::nullopt);
  pass(302s, all());
  EXPECT_TRUE(has_said("worker 0 (pid 0 on here) has worked on minibatch 0")) << said_;
  EXPECT_FALSE(has_said("worker 1 (pid 0 on here) has worked")) << said_;
  EXPECT_EQ(begun(next), false);
  EXPECT_EQ(minibatches(ask_for_work(b, lease_of(of_b))), Numbers{0}) << "others take over";
  EXPECT_FALSE(has_said("goes on")) << said_;
}

// It may hold what it has drawn and not begun.
TEST_F(Begins, WhoWaitsForACheckpointHoldsNobodyUp) {
  config_->job.training.mode = job::Mode::kBounded;
  config_->job.training.staleness_bound = 1;
  begin(3);
  const uint64_t a = workers_[0], b = workers_[1], c = workers_[2];
  const Ticket hangs = ask_for_work(a, 0);
  EXPECT_EQ(begun(ask_to_begin(a, hangs)), true);
  Ticket of_c = 0;
  const auto c_computes = [&](uint64_t minibatch) {
    of_c = ask_for_work(c, of_c == 0 ? 0 : lease_of(of_c));
    ASSERT_EQ(minibatches(of_c), Numbers{minibatch});
    EXPECT_EQ(begun(ask_to_begin(c, of_c)), true);
    EXPECT_TRUE(done(c, of_c, 0));
  };
  c_computes(1);
  c_computes(2);
  pass(300s, all());
  const Ticket of_b = ask_for_work(b, 0);
  EXPECT_EQ(minibatches(of_b), Numbers{3});
  ask(Event::Checkpoint{0, 1, "there"});
  const Ticket wants = ask_for_work(c, lease_of(of_c));
  EXPECT_EQ(minibatches(wants), Numbers()) << "it is two ahead of the first";
  pass(302s, all());
  EXPECT_TRUE(has_said("worker 0 (pid 0 on here) has worked on minibatch 0 for")) << said_;
  EXPECT_EQ(minibatches(wants), Numbers{0}) << said_;
  EXPECT_EQ(begun(ask_to_begin(c, wants)), true);
  EXPECT_TRUE(done(c, wants, 0));
  EXPECT_EQ(state_.phase(), Phase::kCheckpointing);
  answer_owner();
  give(Event::CheckpointSaved{});
  EXPECT_EQ(begun(ask_to_begin(b, of_b)), true);
  of_c = wants;
  c_computes(4);
  c_computes(5);
  EXPECT_EQ(minibatches(ask_for_work(c, lease_of(of_c))), Numbers()) << "the second one takes part again";
}

TEST_F(Begins, WhoHoldsWhatItDoesNotBeginIsSaidToDoSo) {
  begin(2);
  ask_for_work(workers_[0], 0);
  pass(602s, all());
  EXPECT_TRUE(has_said("worker 0 (pid 0 on here) has held, but not begun, minibatch 0 for")) << said_;
}

}  // namespace
}  // namespace embers
