// What callers of client::Session do with its state.
#include "client/leased_work.h"

#include <unistd.h>

#include <algorithm>

#include "client/pipeline/pull.h"

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

void Core::throw_failure_within(Clock::duration time) {
  if (!wait_for_end(Clock::now() + time)) return;
  const MutexLock lock(mutex_);
  if (error_) throw_end();
}

std::optional<LeasedWorkPtr> Core::lease(std::optional<Clock::time_point> deadline) {
  MutexLock lock(mutex_);
  go_on();
  ++leasing_;
  while (queue_.empty() && !no_more_ && !closing_ && sleep(lock, deadline)) {
  }
  --leasing_;
  if (ended_ && error_) throw_end();
  if (closing_) throw_end();
  if (queue_.empty()) return no_more_ ? std::optional<LeasedWorkPtr>(nullptr) : std::nullopt;
  const LeasedWorkPtr work = queue_.front();
  queue_.pop_front();
  with_callers_.insert(work);
  return work;
}

// What is pushed makes room, and what is given back may be the lowest: both are waited for. What callers hold
// is not.
std::optional<LeasedWorkPtr> Core::draw(std::optional<Clock::time_point> deadline, bool& later) {
  MutexLock lock(mutex_);
  later = false;
  for (;;) {
    if (ended_ && error_) throw_end();
    if (closing_) throw_end();
    if (!queue_.empty()) {
      const LeasedWorkPtr work = queue_.front();
      queue_.pop_front();
      with_callers_.insert(work);
      if (asks_ahead && draw_ == Draw::kNone && given_back_ == 0) ask_for_lease();
      return work;
    }
    if (no_more_) return nullptr;
    is_unwanted_ = false;
    if (draw_ == Draw::kLater && over_ != over_when_asked_) draw_ = Draw::kNone;
    if (draw_ == Draw::kLater && on_their_way_ == 0) {
      draw_ = Draw::kNone;
      later = true;
      return nullptr;
    }
    if (draw_ == Draw::kNone && given_back_ == 0) ask_for_lease();
    if (!sleep(lock, deadline)) return std::nullopt;
  }
}

bool Core::settle(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (on_their_way_ > 0 && !ended_ && !closing_ && sleep(lock, deadline)) {
  }
  if (closing_ || (ended_ && error_)) throw_end();
  return ended_ || on_their_way_ == 0;
}

void Core::ask_for_lease() {
  draw_ = Draw::kAsked;
  over_when_asked_ = over_;
  caf::anon_send(session_, draw_atom::value);
}

void Core::give_back_undrawn() {
  std::vector<LeasedWorkPtr> undrawn;
  {
    const MutexLock lock(mutex_);
    undrawn.assign(queue_.begin(), queue_.end());
    queue_.clear();
    is_unwanted_ = draw_ == Draw::kAsked;
  }
  for (const LeasedWorkPtr& work : undrawn) give_back(work);
}

void Core::ask_to_begin(const LeasedWorkPtr& work) {
  const MutexLock lock(mutex_);
  if (work->state != State::kOver && !ended_ && !closing_) ask_for_begin(work);
}

void Core::ask_for_begin(const LeasedWorkPtr& work) {
  if (work->begin != LeasedWork::Begin::kNotAsked || std::exchange(begins_, true)) return;
  work->begin = LeasedWork::Begin::kAsked;
  caf::anon_send(session_, begin_work_atom::value, WorkPtr(work));
}

std::optional<bool> Core::begin(const LeasedWorkPtr& work, std::optional<Clock::time_point> deadline) {
  using Begin = LeasedWork::Begin;
  MutexLock lock(mutex_);
  for (;;) {
    if (work->begin == Begin::kBegun) return true;
    if (work->begin == Begin::kRefused || work->state == State::kOver) return false;
    if (ended_ || closing_) throw_end();
    ask_for_begin(work);
    if (!sleep(lock, deadline)) return std::nullopt;
  }
}

bool Core::has_begun(const LeasedWork& work) {
  const MutexLock lock(mutex_);
  return work.begin == LeasedWork::Begin::kBegun;
}

void Core::pull(const LeasedWorkPtr& work) {
  {
    const MutexLock lock(steps_mutex_);
    work->step_before = steps_ ? steps_->taken : 0;
  }
  const MutexLock lock(mutex_);
  if (ended_ || closing_) throw_end();
  pulls_ahead_ = pulls_ahead_ || others_are_under_way(*work);
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

void Core::pull_now(const Owners& owners, LeasedWork& work, std::vector<TableKeyList> lists,
                    std::vector<std::span<float>> places) {
  const SystemUse use(*this);
  caf::scoped_actor self{use.system()};
  embers::pull_now(self, owners, work, std::move(lists), std::move(places));
}

void Core::push(const LeasedWorkPtr& work) {
  const MutexLock lock(mutex_);
  if (ended_ || closing_) throw_end();
  with_callers_.erase(work);
  caf::anon_send(hand_on(*work), WorkPtr(work));
}

void Core::carry_own_steps(const job::Job& job, std::span<const embers::TableSpec> tables) {
  const auto dense =
      std::find_if(tables.begin(), tables.end(), [](const auto& table) { return table.name == kDenseTable; });
  if (dense == tables.end() || !OwnSteps::are_carried(job, *dense)) return;
  const MutexLock lock(steps_mutex_);
  carried_ = *dense;
  most_lacking_ = job.training.prefetch;
}

void Core::add_own_steps(LeasedWork& work) {
  if (work.evaluate || std::exchange(work.has_own_steps, true)) return;
  const bool pulls_again = [&] {
    const MutexLock lock(steps_mutex_);
    if (!steps_) return false;
    steps_->own.note(work);
    if (pulls_once_ > 0) --pulls_once_;
    return work.step_before < steps_->taken && pulls_once_ == 0 && steps_->own.others_push();
  }();
  if (pulls_again) pull_dense_again(work);
  const auto owners = known_owners();
  const MutexLock lock(steps_mutex_);
  if (steps_ && owners) steps_->own.add_to(work, dense_owners(model, owners->map));
}

// Without an answer, what was pulled ahead will do: the push finds out what is wrong. It is not waited for
// again soon.
void Core::pull_dense_again(LeasedWork& work) {
  try {
    const SystemUse use(*this);
    const auto owners = known_owners();
    if (!owners || owners->map.version != work.origin.map_version) return;  // its push will be refused
    caf::scoped_actor self{use.system()};
    const DenseKeys keys(model);
    embers::pull_dense_again(self, *owners, work, keys.dense, caf::duration(std::chrono::seconds(1)));
  } catch (const Error&) {
    const MutexLock lock(steps_mutex_);
    pulls_once_ = 64;
  }
}

bool Core::others_are_under_way(const LeasedWork& than) {
  const auto is_pulled = [&](const LeasedWorkPtr& work) {
    return work.get() != &than && (work->state == State::kPulling || work->state == State::kPulled);
  };
  return on_their_way_ > 0 || std::any_of(with_callers_.begin(), with_callers_.end(), is_pulled);
}

void Core::take_own_step(LeasedWork& work) {
  const bool may_be_lacking = [&] {
    const MutexLock lock(mutex_);
    return pulls_ahead_;
  }();
  if (work.dense.empty() || !may_be_lacking) return;
  const MutexLock lock(steps_mutex_);
  if (!carried_) return;
  if (!steps_) steps_.emplace(Steps{LocalModel(*carried_), OwnSteps(most_lacking_), 0});
  ++steps_->taken;
  steps_->model.replace(work.rows.dense.span());
  steps_->own.keep(work, steps_->model.update(work.dense, work.newest_version() + 1));
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

void Core::begin_to_save() {
  const MutexLock lock(mutex_);
  ++saving_;
}

void Core::end_saving() {
  const MutexLock lock(mutex_);
  if (--saving_ == 0) go_on();
}

// What waits, nobody wants now: other threads of the program may.
void Core::give_back_waiting() {
  std::deque<LeasedWorkPtr> waiting;
  {
    const MutexLock lock(mutex_);
    if (window > 0 || !session_ || leasing_ > 0) return;
    rests_ = true;
    caf::anon_send(session_, give_back_atom::value);
    waiting.swap(queue_);
  }
  for (const LeasedWorkPtr& work : waiting) give_back(work);
}

void Core::go_on() {
  if (std::exchange(rests_, false) && session_) caf::anon_send(session_, go_on_atom::value);
}

void Core::look(uint32_t map_version) {
  const MutexLock lock(mutex_);
  if (session_) caf::anon_send(session_, look_atom::value, map_version);
}

bool Core::leave() {
  std::vector<LeasedWorkPtr> open;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    if (!session_) return false;
    caf::anon_send(session_, leave_atom::value);
    open.assign(queue_.begin(), queue_.end());
    open.insert(open.end(), with_callers_.begin(), with_callers_.end());
    queue_.clear();
    changed_.notify_all();
  }
  for (const LeasedWorkPtr& work : open) give_back(work);
  return true;
}

void Core::end_session() {
  const MutexLock lock(mutex_);
  if (session_) caf::anon_send(session_, end_atom::value);
}

void Core::fail_job(const Error& why) {
  const MutexLock lock(mutex_);
  if (session_) caf::anon_send(caf::actor_cast<StageOwner>(session_), StageFailure{why.code(), why.what()});
}

bool Core::has_finished() {
  const MutexLock lock(mutex_);
  return no_more_ && !error_ && queue_.empty() && with_callers_.empty();
}

bool Core::wait_for_end(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!ended_ && sleep(lock, deadline)) {
  }
  return ended_;
}

std::shared_ptr<SessionSystem> Core::system() {
  const MutexLock lock(mutex_);
  if (!system_) throw_end();
  return system_;
}

std::shared_ptr<SessionSystem> Core::let_go_of_system() {
  const MutexLock lock(mutex_);
  owners_ = nullptr;
  session_ = nullptr;
  for (const LeasedWorkPtr& work : with_callers_) work->next = nullptr;
  with_callers_.clear();
  return std::exchange(system_, nullptr);
}

bool Core::is_closing() {
  const MutexLock lock(mutex_);
  return closing_;
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
