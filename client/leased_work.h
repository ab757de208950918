#pragma once

#include <condition_variable>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "client/pipeline/own_steps.h"
#include "client/pipeline/session_actor.h"
#include "client/session.h"
#include "client/session_system.h"

// What stands between a session's actors and the threads of a program that calls client::Session.
namespace embers::client::detail {

// A minibatch that a caller of Session computes: what the caller gave for it.
struct LeasedWork : embers::Work {
  enum class State : uint8_t { kLeased, kPulling, kPulled, kOver };
  State state = State::kLeased;  // guarded by Core
  enum class Begin : uint8_t { kNotAsked, kAsked, kBegun, kRefused };
  bool gives_back = false;         // on its way back to the master; guarded by Core
  Begin begin = Begin::kNotAsked;  // of a session with a window; guarded by Core
  StageActor next;                 // where it goes from the part that has it; guarded by Core
  std::deque<Keys> asked;          // Work::keys views them
  std::vector<FloatBuffer> row_gradients;
  std::deque<Keys> joined_keys;  // of tables that were pulled several times
  FloatBuffer dense_gradients, buffer_values;
  uint64_t step_before = 0;    // steps of this process before its pull
  bool has_own_steps = false;  // its dense parameters have those that were taken by their first reading
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

// The state that actors and callers share. It outlives the actor system, since Session and Minibatches may.
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
  void set_system(std::shared_ptr<SessionSystem> system);
  void set_session(SessionActor session);
  void over(const WorkPtr& work);
  // With a window: the session's answers.
  void later();
  void begun(const WorkPtr& work, bool begun);
  void end(std::optional<Error> error);

  // --- the callers' side -------------------------------------------------------------------------
  // Where owners are; waits for that until the deadline, also for others than `old` if the session has moved
  // on. Throws why the session has ended; null when time is up.
  std::shared_ptr<const Owners> owners(Clock::time_point deadline, const Owners* old = nullptr);
  std::shared_ptr<const Owners> known_owners();  // without waiting; null before it has joined
  // Waits until the session has ended; throws why, unless time is up before.
  void throw_end_within(Clock::duration time);
  void throw_failure_within(Clock::duration time);  // not if it has ended well
  // A work; null when there are none any more. Nothing when time is up.
  std::optional<LeasedWorkPtr> lease(std::optional<Clock::time_point> deadline);
  // With a window: a work, or null when there is nothing until others are done (`later` is set) or ever.
  // Nothing when time is up.
  std::optional<LeasedWorkPtr> draw(std::optional<Clock::time_point> deadline, bool& later);
  // Waits until nothing is on its way that callers have pushed or given back; false when time is up.
  bool settle(Clock::time_point deadline);
  // With a window: gives back what was asked for ahead and is not drawn yet.
  void give_back_undrawn();
  // With a window: asks whether the work on it begins.
  void ask_to_begin(const LeasedWorkPtr& work);
  // The answer; nothing when time is up.
  std::optional<bool> begin(const LeasedWorkPtr& work, std::optional<Clock::time_point> deadline);
  bool has_begun(const LeasedWork& work);
  void pull(const LeasedWorkPtr& work);
  // Whether it is pulled or over by then.
  bool wait(const LeasedWorkPtr& work, std::optional<Clock::time_point> deadline);
  LeasedWork::State state(const LeasedWork& work);
  // More rows for a work that is pulled; waits. Throws as pull_now() of client/pipeline/pull.h.
  void pull_now(const Owners& owners, LeasedWork& work, std::vector<TableKeyList> lists,
                std::vector<std::span<float>> places);
  void push(const LeasedWorkPtr& work);
  // Once it has joined as a worker.
  void carry_own_steps(const job::Job& job, std::span<const embers::TableSpec> tables);
  // Where others push, too, what was pulled before the last step is pulled again beforehand.
  void add_own_steps(LeasedWork& work);
  void take_own_step(LeasedWork& work);
  void give_back(const LeasedWorkPtr& work);
  // Without a window: what is leased and not with a caller yet. The session asks for more.
  void give_back_waiting();
  // For as long as somebody saves, give_back_waiting() also keeps the session from asking for more.
  void begin_to_save();
  void end_saving();
  // The session is to look for owners again, since one was not found where this version of the map says.
  void look(uint32_t map_version);
  // The session is to leave: gives back what callers have and what comes from now on. False if it had not
  // begun.
  bool leave();
  // It is to end at once.
  void end_session();
  // It is to end the job with this error.
  void fail_job(const Error& why);
  // Whether nothing more is leased, and callers hold nothing.
  bool has_finished();
  // Whether the session has ended by then.
  bool wait_for_end(Clock::time_point deadline);
  // For the time of a call; see SystemUse. Throws why the session has ended, if it is closed.
  std::shared_ptr<SessionSystem> system();
  // Lets go of it, and of all its actors. Null the second time.
  std::shared_ptr<SessionSystem> let_go_of_system();
  bool is_closing();
  void check_process() const;  // kInvalid in a child of the process that joined

  const ModelSpec model;
  const std::vector<ParameterPlace> places;  // of model.dense
  uint32_t window = 0;                       // constant once it has joined
  // With a window: while a caller computes one minibatch, the next one is asked for, so that nobody waits for
  // the master's answer. Not where leases are about others' work (sync, bounded). The begin of a work is
  // always waited for: during a checkpoint nothing may be pushed that the master does not know to have begun.
  // Constant once it has joined.
  bool asks_ahead = false;
  const int process;  // that joined

 private:
  // Waits for a change, until the deadline at the latest; false when time is up.
  bool sleep(MutexLock& lock, std::optional<Clock::time_point> deadline);
  [[noreturn]] void throw_end() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void leased(const LeasedWorkPtr& work, const StageActor& session);
  void pulled(const LeasedWorkPtr& work, const StageActor& pusher);
  void go_on() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ask_for_lease() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ask_for_begin(const LeasedWorkPtr& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void pull_dense_again(LeasedWork& work);
  bool others_are_under_way(const LeasedWork& than) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It leaves the callers' side.
  StageActor hand_on(LeasedWork& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::shared_ptr<SessionSystem> system_ ABSL_GUARDED_BY(mutex_);
  SessionActor session_ ABSL_GUARDED_BY(mutex_);
  enum class Draw : uint8_t { kNone, kAsked, kLater };
  bool rests_ ABSL_GUARDED_BY(mutex_) = false;  // the session asks for no leases
  size_t saving_ ABSL_GUARDED_BY(mutex_) = 0, leasing_ ABSL_GUARDED_BY(mutex_) = 0;  // callers
  bool begins_ ABSL_GUARDED_BY(mutex_) = false;  // the master is asked whether the work on one may begin
  Draw draw_ ABSL_GUARDED_BY(mutex_) = Draw::kNone;
  bool is_unwanted_ ABSL_GUARDED_BY(mutex_) = false;  // what was asked for goes back when it comes
  uint64_t over_ ABSL_GUARDED_BY(mutex_) = 0, over_when_asked_ ABSL_GUARDED_BY(mutex_) = 0;  // works
  size_t on_their_way_ ABSL_GUARDED_BY(mutex_) = 0;  // pushed or given back, not over yet
  size_t given_back_ ABSL_GUARDED_BY(mutex_) = 0;    // of these
  std::condition_variable changed_;
  std::shared_ptr<const Owners> owners_ ABSL_GUARDED_BY(mutex_);
  bool no_more_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more is leased
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ ABSL_GUARDED_BY(mutex_);            // why, once it has ended
  std::deque<LeasedWorkPtr> queue_ ABSL_GUARDED_BY(mutex_);       // leased, not yet given to a caller
  std::set<LeasedWorkPtr> with_callers_ ABSL_GUARDED_BY(mutex_);  // and not over
  // Some minibatch was pulled before owners had answered all pushes of those before.
  bool pulls_ahead_ ABSL_GUARDED_BY(mutex_) = false;

  // Own steps, where the job has them, and callers pull ahead.
  struct Steps {
    LocalModel model;
    OwnSteps own;
    uint64_t taken;  // steps so far
  };
  Mutex steps_mutex_;  // apart, since a step of a large model takes milliseconds
  std::optional<embers::TableSpec> carried_ ABSL_GUARDED_BY(steps_mutex_);  // the dense table
  size_t most_lacking_ ABSL_GUARDED_BY(steps_mutex_) = 0;
  std::optional<Steps> steps_ ABSL_GUARDED_BY(steps_mutex_);
  size_t pulls_once_ ABSL_GUARDED_BY(steps_mutex_) = 0;  // so many works do not pull dense parameters again
};

// While a caller's thread has one, the session's actor system is there. To be made first in a call, so that
// all else that the call has of the system goes before.
class SystemUse {
 public:
  explicit SystemUse(Core& core) : system_(core.system()) {}
  caf::actor_system& system() const { return system_->system; }
  Transport& transport() const { return system_->transport; }

 private:
  const SystemVisit visit_;
  const std::shared_ptr<SessionSystem> system_;
};

}  // namespace embers::client::detail
