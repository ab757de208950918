#pragma once

#include <algorithm>
#include <caf/all.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>

#include "actors/ask.h"
#include "actors/spawn.h"

namespace embers::testing_support {

// How a request ended, once it has.
template <class T>
struct Outcome {
  std::optional<Message<typename KindOf<T>::Reply>> reply;
  std::optional<Error> error;

  bool open() const { return !reply && !error; }
  auto get() const {
    if (error) throw Error(*error);
    if (!reply) throw std::logic_error("the request is still open");
    return reply->get();
  }
};

// An actor system whose actors take turns in the thread of the test, on virtual time: the same messages in
// the same order in every run, and nobody waits.
class Simulation {
 public:
  Simulation() : system_(config()) {}
  ~Simulation() { settle(); }                        // so that actors end that were told to
  operator caf::actor_system&() { return system_; }  // NOLINT: stands for its system everywhere

  // All messages that are under way, and what they lead to, but for what is due later.
  void settle() { simulator_->run(); }
  // One actor that has a message takes its turn.
  void turn() { simulator_->run_once(); }
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

  // Asks; the answer comes when the asker and others have taken their turns.
  template <class T, class Actor>
  std::shared_ptr<Outcome<T>> post(const Actor& whom, const Message<T>& question) {
    auto outcome = std::make_shared<Outcome<T>>();
    const auto asker = [=](caf::event_based_actor* self, const Actor& server) {
      self->request(server, caf::infinite, question)
          .then([outcome](const Message<typename KindOf<T>::Reply>& m) { outcome->reply = m; },
                [outcome](caf::error& e) { outcome->error = from_caf(e); });
    };
    system_.spawn(asker, whom);
    return outcome;
  }
  // Asks and settles; the answer may still be open then.
  template <class T, class Actor>
  std::shared_ptr<Outcome<T>> start(const Actor& whom, const Message<T>& question) {
    auto outcome = post(whom, question);
    settle();
    return outcome;
  }
  // Asks, settles, and takes the answer, which must have come; an error is thrown.
  template <class T, class Actor>
  Message<typename KindOf<T>::Reply> ask(const Actor& whom, const Message<T>& question) {
    const auto outcome = start(whom, question);
    outcome->get();
    return *outcome->reply;
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
  template <class Actor>
  Later(Simulation& simulation, const Actor& whom, const Message<T>& question)
      : simulation_(&simulation), outcome_(simulation.post(whom, question)) {}
  // Whether there is none yet, after this time.
  bool waits(std::chrono::milliseconds time = std::chrono::milliseconds(100)) {
    simulation_->pass(time);
    return outcome_->open();
  }
  Message<typename KindOf<T>::Reply> get() {
    simulation_->run_until([this] { return !outcome_->open(); });
    outcome_->get();
    return *outcome_->reply;
  }

 private:
  Simulation* simulation_;
  std::shared_ptr<Outcome<T>> outcome_;
};

}  // namespace embers::testing_support
