#pragma once

#include <condition_variable>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "client/session.h"
#include "client/session_actor.h"

// What stands between a session's actors and the threads of a program that calls client::Session.
namespace embers::client::detail {

// A minibatch that a caller of Session computes: what the caller gave for it.
struct LeasedWork : Work {
  enum class State : uint8_t { kLeased, kPulling, kPulled, kOver };
  State state = State::kLeased;  // guarded by Core
  StageActor next;               // where it goes from the part that has it; guarded by Core
  std::vector<Keys> asked;       // Work::keys views them
  std::vector<FloatBuffer> row_gradients;
  FloatBuffer dense_gradients, buffer_values;
  std::vector<float> scores, labels;
  std::vector<uint64_t> records;
};
using LeasedWorkPtr = std::shared_ptr<LeasedWork>;

// Where a dense parameter's values lie among the chunks of its reserved table.
struct ParameterPlace {
  bool buffer;
  size_t begin, size;  // floats
};
std::vector<ParameterPlace> parameter_places(const ModelSpec& model);

// The state that actors and callers share. It outlives the actor system, since Minibatches may.
//
// *Thread safety*: all members from any thread.
class Core : public std::enable_shared_from_this<Core> {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Core(ModelSpec model);

  // --- the session's side ------------------------------------------------------------------------
  // The parts that are plugged into it: they hand works to callers and back.
  SessionParts parts();
  void set_owners(std::shared_ptr<const Owners> owners);
  void last_lease();
  void end(std::optional<Error> error);

  // --- the callers' side -------------------------------------------------------------------------
  // Where owners are; waits for that until the deadline, also for others than `old` if the session has moved
  // on. Throws why the session has ended; null when time is up.
  std::shared_ptr<const Owners> owners(Clock::time_point deadline, const Owners* old = nullptr);
  std::shared_ptr<const Owners> known_owners();  // without waiting; null before it has joined
  // Waits until the session has ended; throws why, unless time is up before.
  void throw_end_within(Clock::duration time);
  // A work; null when there are none any more. Nothing when time is up.
  std::optional<LeasedWorkPtr> lease(std::optional<Clock::time_point> deadline);
  void pull(const LeasedWorkPtr& work);
  // Whether it is pulled or over by then.
  bool wait(const LeasedWorkPtr& work, std::optional<Clock::time_point> deadline);
  LeasedWork::State state(const LeasedWork& work);
  void push(const LeasedWorkPtr& work);
  void give_back(const LeasedWorkPtr& work);
  // Gives back what callers have and what comes from now on.
  void close();
  // Whether the session has ended by then.
  bool wait_for_end(Clock::time_point deadline);
  // Lets go of all actors.
  void forget_actors();
  void check_process() const;  // kInvalid in a child of the process that joined

  const ModelSpec model;
  const std::vector<ParameterPlace> places;  // of model.dense
  const int process;                         // that joined

 private:
  // Waits for a change, until the deadline at the latest; false when time is up.
  bool sleep(MutexLock& lock, std::optional<Clock::time_point> deadline);
  [[noreturn]] void throw_end() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void leased(const LeasedWorkPtr& work, const StageActor& session);
  void pulled(const LeasedWorkPtr& work, const StageActor& pusher);
  // It leaves the callers' side.
  StageActor hand_on(LeasedWork& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Owners> owners_ ABSL_GUARDED_BY(mutex_);
  bool no_more_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more is leased
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ ABSL_GUARDED_BY(mutex_);            // why, once it has ended
  std::deque<LeasedWorkPtr> queue_ ABSL_GUARDED_BY(mutex_);       // leased, not yet given to a caller
  std::set<LeasedWorkPtr> with_callers_ ABSL_GUARDED_BY(mutex_);  // and not over
};

}  // namespace embers::client::detail
