#include "client/leased_work.h"

#include <unistd.h>

namespace embers::client::detail {

using State = LeasedWork::State;

std::vector<ParameterPlace> parameter_places(const ModelSpec& model) {
  std::vector<ParameterPlace> places(model.dense.size());
  for (const bool buffer : {false, true}) {
    const auto chunks = dense_chunks(model, buffer);
    for (size_t i = chunks.size(); i-- > 0;)  // backward, so that the first chunk of each has the last word
      places[chunks[i].param].begin = i * kDenseChunk;
  }
  for (size_t p = 0; p < places.size(); ++p) {
    places[p].buffer = model.dense[p].buffer;
    places[p].size = static_cast<size_t>(model.dense[p].numel());
  }
  return places;
}

Core::Core(ModelSpec spec)
    : model(std::move(spec)), places(parameter_places(model)), process(static_cast<int>(::getpid())) {}

// --- the session's side --------------------------------------------------------------------------

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

void Core::end(std::optional<Error> error) {
  const MutexLock lock(mutex_);
  ended_ = no_more_ = true;
  error_ = std::move(error);
  changed_.notify_all();
}

void Core::leased(const LeasedWorkPtr& work, const StageActor& session) {
  const MutexLock lock(mutex_);
  work->next = session;
  if (closing_) {
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
  return std::exchange(work.next, nullptr);
}

// --- the callers' side ---------------------------------------------------------------------------

bool Core::sleep(MutexLock& lock, std::optional<Clock::time_point> deadline) {
  if (deadline) return lock.wait_until(changed_, *deadline);
  lock.wait(changed_);
  return true;
}

void Core::throw_end() const {
  if (error_) throw Error(*error_);
  fail(ErrorCode::kInvalid, "this session has left its job: join again");
}

std::shared_ptr<const Owners> Core::owners(Clock::time_point deadline, const Owners* old) {
  MutexLock lock(mutex_);
  while (!ended_ && !closing_ && owners_.get() == old && sleep(lock, deadline)) {
  }
  if (ended_ || closing_) throw_end();
  return owners_.get() == old ? nullptr : owners_;
}

std::shared_ptr<const Owners> Core::known_owners() {
  const MutexLock lock(mutex_);
  return owners_;
}

void Core::throw_end_within(Clock::duration time) {
  MutexLock lock(mutex_);
  const Clock::time_point deadline = Clock::now() + time;
  while (!ended_ && sleep(lock, deadline)) {
  }
  if (ended_) throw_end();
}

std::optional<LeasedWorkPtr> Core::lease(std::optional<Clock::time_point> deadline) {
  MutexLock lock(mutex_);
  while (queue_.empty() && !no_more_ && !closing_ && sleep(lock, deadline)) {
  }
  if (ended_ && error_) throw_end();
  if (closing_) throw_end();
  if (queue_.empty()) return no_more_ ? std::optional<LeasedWorkPtr>(nullptr) : std::nullopt;
  const LeasedWorkPtr work = queue_.front();
  queue_.pop_front();
  with_callers_.insert(work);
  return work;
}

void Core::pull(const LeasedWorkPtr& work) {
  const MutexLock lock(mutex_);
  if (ended_ || closing_) throw_end();
  work->state = State::kPulling;
  work->is_read = true;
  work->since_pull.lap();
  caf::anon_send(std::exchange(work->next, nullptr), WorkPtr(work));
}

bool Core::wait(const LeasedWorkPtr& work, std::optional<Clock::time_point> deadline) {
  MutexLock lock(mutex_);
  while (work->state == State::kPulling && !ended_ && !closing_ && sleep(lock, deadline)) {
  }
  if (work->state != State::kPulling) return true;
  if (ended_ || closing_) throw_end();
  return false;
}

State Core::state(const LeasedWork& work) {
  const MutexLock lock(mutex_);
  return work.state;
}

void Core::push(const LeasedWorkPtr& work) {
  const MutexLock lock(mutex_);
  if (ended_ || closing_) throw_end();
  with_callers_.erase(work);
  caf::anon_send(hand_on(*work), WorkPtr(work));
}

void Core::give_back(const LeasedWorkPtr& work) {
  const MutexLock lock(mutex_);
  with_callers_.erase(work);
  const State was = std::exchange(work->state, State::kOver);
  if (was == State::kOver || was == State::kPulling || !work->next) return;
  work->refused = true;
  work->is_read = was == State::kLeased;
  caf::anon_send(hand_on(*work), WorkPtr(work));
}

void Core::close() {
  std::vector<LeasedWorkPtr> open;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    open.assign(queue_.begin(), queue_.end());
    open.insert(open.end(), with_callers_.begin(), with_callers_.end());
    queue_.clear();
    changed_.notify_all();
  }
  for (const LeasedWorkPtr& work : open) give_back(work);
}

bool Core::wait_for_end(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!ended_ && sleep(lock, deadline)) {
  }
  return ended_;
}

void Core::forget_actors() {
  const MutexLock lock(mutex_);
  owners_ = nullptr;
  for (const LeasedWorkPtr& work : with_callers_) work->next = nullptr;
  with_callers_.clear();
}

void Core::check_process() const {
  if (process != static_cast<int>(::getpid()))
    fail(ErrorCode::kInvalid,
         "process {} joined this job before it forked, and its child {} cannot use its connections: join "
         "again in "
         "the child",
         process, ::getpid());
}

}  // namespace embers::client::detail
