#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <variant>

#include "base/errors.h"
#include "client/admin.h"
#include "schema/status.h"

namespace embers {

using Answer = std::variant<Status, Error>;

// Asks a job's master how it stands, again and again, in a thread of its own: an answer may take as long as
// the network lets it. A thread that waits for one when this is destroyed is left behind.
class Poller {
 public:
  using Interval = std::chrono::duration<double>;

  // Calls `give` with each answer, in that thread; never after the destructor.
  Poller(client::AdminOptions options, Interval interval, std::function<void(Answer)> give);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

// Whether asking again may help, as when the master is not there, or is busy.
bool may_pass(const Error& error);
// Whether the job is over.
bool is_over(const Error& error);

}  // namespace embers
