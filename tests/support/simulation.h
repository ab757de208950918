#pragma once

#include <algorithm>
#include <caf/all.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "actors/ask.h"
#include "actors/spawn.h"

namespace embers::testing_support {

// An actor system whose actors take turns in the thread of the test, on virtual time: the same messages in
// the same order in every run, and nobody waits. Actors that the test itself stands for ask with ask().
class Simulation {
 public:
  Simulation() : system_(config()) {}
  ~Simulation() { settle(); }  // so that actors end that were told to
  operator caf::actor_system&() { return system_; }  // NOLINT: stands for its system everywhere

  // All messages that are under way, and what they lead to, but for what is due later.
  void settle() {
    while (simulator_->try_run_once()) {
    }
  }
  // The same for everything that is due in this time.
  void pass(std::chrono::milliseconds time) {
    settle();
    const auto end = simulator_->clock().now() + time;
    while (simulator_->clock().now() < end) {
      simulator_->advance_time(std::min<caf::timespan>(end - simulator_->clock().now(), kTick));
      settle();
    }
  }
  // Goes on until the condition holds, for an hour at most. Returns whether it does.
  template <class Condition>
  bool run_until(Condition&& condition) {
    const auto latest = simulator_->clock().now() + std::chrono::hours(1);
    while (!condition())
      if (simulator_->clock().now() > latest || !step(*simulator_)) return condition();
    return true;
  }

 private:
  static constexpr auto kTick = std::chrono::milliseconds(5);

  caf::actor_system_config& config() {
    config_.set("scheduler.policy", caf::atom("testing"));
    config_.set("logger.console", caf::atom("none"));
    return config_;
  }
  caf::actor_system_config config_;
  caf::actor_system system_;
  Simulator* const simulator_ = simulator(system_);
};

// An answer that may take a while to come.
template <class T>
class Later {
 public:
  using Reply = Message<typename KindOf<T>::Reply>;

  template <class Actor>
  Later(Simulation& simulation, const Actor& whom, const Message<T>& question)
      : simulation_(&simulation), self_(std::make_shared<caf::scoped_actor>(simulation)) {
    auto pending = std::make_shared<decltype((*self_)->request(whom, caf::infinite, question))>(
        (*self_)->request(whom, caf::infinite, question));
    get_ = [self = self_, pending] { return receive_answer<Reply>(self->ptr(), std::move(*pending)); };
  }
  // Whether there is none yet, after this time.
  bool waits(std::chrono::milliseconds time = std::chrono::milliseconds(100)) {
    simulation_->pass(time);
    return self_->ptr()->mailbox().empty();
  }
  Reply get() { return get_(); }

 private:
  Simulation* simulation_;
  std::shared_ptr<caf::scoped_actor> self_;
  std::function<Reply()> get_;
};

}  // namespace embers::testing_support
