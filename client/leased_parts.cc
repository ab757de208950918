// What a session's actors call of client::Session's state: the parts that are plugged into the session, and
// what the session tells.
#include "client/leased_work.h"

namespace embers::client::detail {

using State = LeasedWork::State;

SessionParts Core::parts() {
  SessionParts parts;
  parts.make_work = [] { return std::make_shared<LeasedWork>(); };
  using Take = void (Core::*)(const LeasedWorkPtr&, const StageActor&);
  const auto spawn = [core = shared_from_this()](caf::actor_system& system, Take take,
                                                 const StageActor& next) {
    const auto behavior = [](StageActor::pointer, const std::shared_ptr<Core>& to, Take hand,
                             const StageActor& after) -> StageActor::behavior_type {
      return {[=](const WorkPtr& work) { ((*to).*hand)(std::static_pointer_cast<LeasedWork>(work), after); }};
    };
    return StageActor(system.spawn(behavior, core, take, next));
  };
  parts.read = [spawn](caf::actor_system& system, const StageActor& next, const StageOwner&) {
    return spawn(system, &Core::leased, next);
  };
  parts.train = [spawn](caf::actor_system& system, const auto&, const StageActor& next, const StageOwner&) {
    return spawn(system, &Core::pulled, next);
  };
  parts.holds_works = true;
  return parts;
}

void Core::set_owners(std::shared_ptr<const Owners> owners) {
  const MutexLock lock(mutex_);
  owners_ = std::move(owners);
  changed_.notify_all();
}

void Core::last_lease() {
  const MutexLock lock(mutex_);
  no_more_ = true;
  changed_.notify_all();
}

void Core::set_system(std::shared_ptr<SessionSystem> system) {
  const MutexLock lock(mutex_);
  system_ = std::move(system);
}

void Core::set_session(SessionActor session) {
  const MutexLock lock(mutex_);
  session_ = std::move(session);
}

void Core::later() {
  const MutexLock lock(mutex_);
  draw_ = Draw::kLater;
  changed_.notify_all();
}

void Core::begun(const WorkPtr& work, bool begun) {
  const MutexLock lock(mutex_);
  static_cast<LeasedWork&>(*work).begin = begun ? LeasedWork::Begin::kBegun : LeasedWork::Begin::kRefused;
  begins_ = false;
  changed_.notify_all();
}

void Core::over(const WorkPtr& work) {
  const MutexLock lock(mutex_);
  if (static_cast<LeasedWork&>(*work).state != State::kOver) return;  // it has never been here
  --on_their_way_;
  ++over_;
  if (static_cast<LeasedWork&>(*work).gives_back) --given_back_;
  changed_.notify_all();
}

void Core::end(std::optional<Error> error) {
  const MutexLock lock(mutex_);
  ended_ = no_more_ = true;
  error_ = std::move(error);
  changed_.notify_all();
}

void Core::leased(const LeasedWorkPtr& work, const StageActor& session) {
  const MutexLock lock(mutex_);
  work->next = session;
  draw_ = Draw::kNone;
  if (closing_ || std::exchange(is_unwanted_, false)) {
    work->refused = work->is_read = true;
    return caf::anon_send(hand_on(*work), WorkPtr(work));
  }
  queue_.push_back(work);
  changed_.notify_all();
}

void Core::pulled(const LeasedWorkPtr& work, const StageActor& pusher) {
  const MutexLock lock(mutex_);
  work->next = pusher;
  if (closing_ || work->state == State::kOver) work->refused = true;  // nobody waits for it
  if (work->refused) {
    with_callers_.erase(work);
    caf::anon_send(hand_on(*work), WorkPtr(work));
  } else {
    work->state = State::kPulled;
  }
  changed_.notify_all();
}

StageActor Core::hand_on(LeasedWork& work) {
  work.state = State::kOver;
  ++on_their_way_;
  work.gives_back = work.refused;
  given_back_ += work.gives_back;
  return std::exchange(work.next, nullptr);
}

}  // namespace embers::client::detail
