// Members that lose their connection to the master and come back over another one, or do not.
#include <gtest/gtest.h>

#include <algorithm>

#include "master/state/job_state.h"

namespace embers {
namespace {

using namespace std::chrono_literals;

constexpr double kTimeout = 4;  // seconds: job.heartbeat_timeout

class Reconnecting : public testing::Test {
 protected:
  static std::shared_ptr<JobConfig> make_config() {
    auto config = std::make_shared<JobConfig>();
    config->job.job.heartbeat_timeout = kTimeout;
    config->job.training.minibatches_per_lease = 2;
    config->job.storage.buckets = 16;
    config->shards = 1;
    config->workers = 2;
    config->train_minibatches = 4;
    return config;
  }

  // Returns the ticket of a request.
  template <class E>
  Ticket ask(E e) {
    e.ticket = ++last_ticket_;
    give(e);
    return last_ticket_;
  }
  template <class E>
  void give(E e) {
    for (const Effect& effect : state_.on({now_, e})) {
      if (const auto* answer = std::get_if<Effect::Answer>(&effect.what))
        answers_.emplace(answer->ticket, answer->reply);
      if (const auto* refusal = std::get_if<Effect::Refuse>(&effect.what))
        refusals_.emplace(refusal->ticket, refusal->error);
      if (const auto* say = std::get_if<Effect::Say>(&effect.what)) said_ += say->line + "\n";
      if (const auto* connect = std::get_if<Effect::Connect>(&effect.what)) connects_.push_back(*connect);
      if (const auto* question = std::get_if<Effect::Ask>(&effect.what)) asks_.push_back(*question);
      if (std::holds_alternative<Effect::Prepare>(effect.what)) prepares_ = true;
    }
  }
  // Heartbeats of all whose connection there is.
  void pass(std::chrono::seconds time, const std::vector<uint64_t>& alive) {
    for (const auto end = now_ + time; now_ < end;) {
      now_ += 1s;
      for (const uint64_t incarnation : alive) ask(Event::Heartbeat{0, incarnation});
      give(Event::Tick{});
    }
  }

  Event::Join worker(uint64_t number, const std::string& threads = "1") {
    Event::Join e;
    e.link = e.token = number;
    e.host = "here";
    e.model = signature(config_->model);
    e.numeric = {"threads = " + threads};
    return e;
  }
  Event::Join owner() {
    Event::Join e;
    e.link = e.token = 100;
    e.owner = true;
    e.host = "there";
    return e;
  }
  uint64_t join_owner() {
    const Ticket ticket = ask(owner());
    give(Event::Connected{connects_.back().incarnation});
    return joined(ticket).incarnation;
  }
  const Reply::Join& joined(Ticket ticket) { return std::get<Reply::Join>(answers_.at(ticket)); }
  // An owner and two workers, training.
  void begin() {
    owner_ = join_owner();
    const Ticket first = ask(worker(1)), second = ask(worker(2));
    a_ = joined(first).incarnation;
    b_ = joined(second).incarnation;
    give(Event::Prepared{});
    answer_owner();
    ASSERT_EQ(state_.phase(), Phase::kTraining);
  }
  void answer_owner() {
    for (const Effect::Ask& a : std::exchange(asks_, {})) {
      const bool counts = std::holds_alternative<Question::Stats>(a.question);
      give(Event::OwnerAnswered{a.number, a.incarnation, a.id,
                                counts ? OwnerAnswer(OwnerCounts()) : OwnerAnswer(std::monostate())});
    }
  }
  Ticket ask_for_work(uint64_t worker, uint64_t received) { return ask(Event::Lease{0, worker, received}); }
  // What that lease holds; empty when it was not granted.
  std::vector<uint64_t> minibatches(Ticket ticket) {
    std::vector<uint64_t> out;
    if (const auto found = answers_.find(ticket); found != answers_.end())
      for (const auto& part : std::get<Reply::Lease>(found->second).lease.parts)
        out.push_back(part.minibatch);
    return out;
  }
  uint64_t lease_of(Ticket ticket) { return std::get<Reply::Lease>(answers_.at(ticket)).lease.id; }
  bool done(uint64_t worker, Ticket lease, size_t i) {
    const auto& granted = std::get<Reply::Lease>(answers_.at(lease)).lease;
    Event::Done e;
    e.incarnation = worker;
    e.lease = granted.id;
    e.minibatch = granted.parts.at(i).minibatch;
    e.attempt = granted.parts.at(i).attempt;
    e.examples = 10;
    return std::get<Reply::Done>(answers_.at(ask(e))).accepted;
  }
  bool has_said(const std::string& part) const { return said_.find(part) != std::string::npos; }

  const std::shared_ptr<JobConfig> config_ = make_config();
  Time now_{1h};
  JobState state_{config_, 0, false, now_};
  Ticket last_ticket_ = 0;
  std::map<Ticket, Reply::Any> answers_;
  std::map<Ticket, Error> refusals_;
  std::vector<Effect::Connect> connects_;
  std::vector<Effect::Ask> asks_;
  std::string said_;
  bool prepares_ = false;
  uint64_t owner_ = 0, a_ = 0, b_ = 0;  // incarnations
};

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
