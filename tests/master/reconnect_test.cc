// Members that lose their connection to the master and come back over another one, or do not.
#include "tests/master/members_testing.h"

namespace embers {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;

class Reconnecting : public MembersTest {};

using Numbers = std::vector<uint64_t>;

TEST_F(Reconnecting, MeanwhileOthersComputeWhatItHolds) {
  begin();
  const Ticket of_a = ask_for_work(a_, 0), of_b = ask_for_work(b_, 0);
  EXPECT_EQ(minibatches(of_a), (Numbers{0, 1}));
  const Ticket more = ask_for_work(a_, lease_of(of_a)), later = ask_for_work(b_, lease_of(of_b));
  give(Event::LinkDown{1, "the connection was reset"});
  EXPECT_TRUE(has_said("the connection was reset; 2 of its minibatches are leased to others, too")) << said_;
  EXPECT_EQ(minibatches(later), (Numbers{0, 1}));
  EXPECT_TRUE(refusals_.contains(more)) << "nothing is leased to a connection that has ended";
  give(Event::Reconnected{a_, 11});
  EXPECT_TRUE(done(a_, of_a, 0)) << "it was first";
  EXPECT_FALSE(done(b_, later, 0));
  EXPECT_TRUE(done(b_, later, 1));
  EXPECT_FALSE(done(a_, of_a, 1));
}

TEST_F(Reconnecting, ItHoldsAgainWhatNobodyElseWasGiven) {
  begin();
  const Ticket of_a = ask_for_work(a_, 0);
  give(Event::LinkDown{1, "reset"});
  give(Event::Reconnected{a_, 11});
  EXPECT_TRUE(has_said("worker 0 (pid 0 on here) is connected again")) << said_;
  EXPECT_EQ(minibatches(ask_for_work(b_, 0)), (Numbers{2, 3}));
  EXPECT_TRUE(done(a_, of_a, 0));
  give(Event::LinkDown{1, "an end that is noticed late"});
  EXPECT_TRUE(done(a_, of_a, 1));
  pass(20s, {a_, b_, owner_});
  EXPECT_EQ(state_.report().workers_lost, 0);
}

TEST_F(Reconnecting, ItIsLostWhenItDoesNotComeBack) {
  begin();
  give(Event::LinkDown{1, "reset"});
  pass(3s, {b_, owner_});
  EXPECT_NE(state_.members().find(a_), nullptr);
  pass(3s, {b_, owner_});
  EXPECT_EQ(state_.members().find(a_), nullptr);
  EXPECT_EQ(state_.report().workers_lost, 1);
}

TEST_F(Reconnecting, ALeaseThatNeverArrivedIsGivenAgain) {
  begin();
  ask_for_work(a_, 0);
  const Ticket again = ask_for_work(a_, 0);  // over another connection, before the master has noticed
  EXPECT_EQ(minibatches(again), (Numbers{0, 1}));
  EXPECT_EQ(std::get<Reply::Lease>(answers_.at(again)).lease.parts[0].attempt, 2);
  EXPECT_EQ(minibatches(ask_for_work(b_, 0)), (Numbers{2, 3}));
  EXPECT_EQ(minibatches(ask_for_work(a_, lease_of(again))), Numbers()) << "it has received that one";
}

TEST_F(Reconnecting, AJoinThatIsAskedAgainIsTheSameJoin) {
  const Ticket first = ask(worker(1));
  Event::Join again = worker(1);
  again.link = 11;
  const Ticket second = ask(again);
  EXPECT_TRUE(refusals_.contains(first)) << "one waits, not two";
  const uint64_t owner_incarnation = join_owner();
  EXPECT_EQ(state_.members().workers(), 1u);
  Event::Join late = worker(1);
  late.link = 12;
  EXPECT_EQ(joined(ask(late)).incarnation, joined(second).incarnation);
  Event::Join owner_again = owner();
  owner_again.link = 101;
  EXPECT_EQ(joined(ask(owner_again)).incarnation, owner_incarnation);
}

TEST_F(Reconnecting, AJobDoesNotBeginWithWhoIsNotThere) {
  join_owner();
  ask(worker(1));
  give(Event::LinkDown{1, "reset"});
  ask(worker(2));
  EXPECT_FALSE(prepares_);
  Event::Join again = worker(1);
  again.link = 11;
  ask(again);
  EXPECT_TRUE(prepares_);
}

// Its settings bind nobody either: it may be gone.
TEST_F(Reconnecting, WhoDoesNotComeBackBeforeTheBeginIsForgotten) {
  config_->job.training.mode = job::Mode::kSync;
  ask(worker(1, "1"));
  give(Event::LinkDown{1, "reset"});
  const Ticket other = ask(worker(2, "2"));
  EXPECT_FALSE(refusals_.contains(other));
  Event::Join again = worker(1, "1");
  again.link = 11;
  EXPECT_TRUE(refusals_.contains(ask(again))) << "meanwhile another one was the first";
  pass(6s, {});
  EXPECT_EQ(state_.members().workers(), 1u);
}

TEST_F(Reconnecting, AnOwnerIsNotLostForItsConnection) {
  begin();
  give(Event::LinkDown{100, "reset"});
  pass(3s, {a_, b_});
  give(Event::Reconnected{owner_, 101});
  pass(20s, {a_, b_, owner_});
  EXPECT_EQ(state_.phase(), Phase::kTraining) << said_;
  give(Event::LinkDown{101, "reset"});
  pass(6s, {a_, b_});
  ASSERT_TRUE(state_.error());
  EXPECT_NE(std::string(state_.error()->what()).find("lost shard 0 (pid 0 on there): no sign of life"),
            std::string::npos)
      << state_.error()->what();
}

TEST_F(Reconnecting, AFailedJobDoesNotWaitForIt) {
  begin();
  give(Event::LinkDown{1, "reset"});
  ask(Event::Fail{0, b_, Error(ErrorCode::kInvalid, "bad data")});
  for (int i = 0; i < 2; ++i) give(Event::OwnerTold{});
  ask(Event::Heartbeat{0, b_});
  EXPECT_EQ(state_.phase(), Phase::kOver);
}

}  // namespace
}  // namespace embers
