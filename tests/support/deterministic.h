#pragma once

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <memory>
#include <optional>

#include "actors/errors.h"
#include "actors/message_types.h"

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

// An actor system without threads: actors run when the test says so, in one order.
class Deterministic {
 public:
  Deterministic() : system_(config()) {}

  caf::actor_system& system() { return system_; }
  // Runs until no actor has a message left.
  void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler()).run(); }

  // Lets one actor with a message run.
  void step() { dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler()).run_once(); }

  // Asks and runs; the answer may still be open then.
  template <class T, class Actor>
  std::shared_ptr<Outcome<T>> start(const Actor& whom, const Message<T>& question) {
    auto outcome = post(whom, question);
    run();
    return outcome;
  }
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
  // Asks, runs, and takes the answer, which must have come; an error is thrown.
  template <class T, class Actor>
  Message<typename KindOf<T>::Reply> ask(const Actor& whom, const Message<T>& question) {
    const auto outcome = start(whom, question);
    outcome->get();
    return *outcome->reply;
  }

 private:
  caf::actor_system_config& config() {
    config_.set("scheduler.policy", caf::atom("testing"));
    config_.set("logger.console", caf::atom("none"));
    return config_;
  }
  caf::actor_system_config config_;
  caf::actor_system system_;
};

}  // namespace embers::testing_support
