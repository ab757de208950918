#pragma once

// JobState as its members see it: a test that joins as workers and owners, falls silent and comes back.
#include <gtest/gtest.h>

#include <map>

#include "master/state/job_state.h"

namespace embers::testing_support {

inline constexpr double kTimeout = 4;  // seconds: job.heartbeat_timeout

class MembersTest : public testing::Test {
 protected:
  explicit MembersTest(uint32_t shards = 1) : config_(make_config(shards)) {}

  static std::shared_ptr<JobConfig> make_config(uint32_t shards) {
    auto config = std::make_shared<JobConfig>();
    config->job.job.heartbeat_timeout = kTimeout;
    config->job.training.minibatches_per_lease = 2;
    config->job.storage.buckets = 16;
    config->shards = shards;
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
      now_ += std::chrono::seconds(1);
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
  Event::Join owner(uint64_t number = 100) {
    Event::Join e;
    e.link = e.token = number;
    e.owner = true;
    e.host = "there";
    return e;
  }
  uint64_t join_owner() {
    const Ticket ticket = ask(owner());
    give(Event::Connected{connects_.back().incarnation});
    answer_owner();
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

  const std::shared_ptr<JobConfig> config_;
  Time now_{std::chrono::hours(1)};
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

}  // namespace embers::testing_support
