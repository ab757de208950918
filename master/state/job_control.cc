// What those who steer the job ask of it.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "master/state/job_state.h"

namespace embers {
namespace {

constexpr size_t kMostNamed = 20;  // workers in a message

}  // namespace

void JobState::check_steerable() const {
  if (error_) throw Error(ErrorCode::kJobFailed, fmt::format("the job has failed: {}", error_->what()));
  if (phase_ >= Phase::kEnding) throw Error(ended());
}

Error JobState::ended() const {
  return {ErrorCode::kEnded, fmt::format("the job '{}' has ended", config_->job.job.name)};
}

void JobState::take(const Event::Scale& e) {
  check_steerable();
  if (e.workers < 1) fail(ErrorCode::kInvalid, "a job needs at least one worker (embers stop ends a job)");
  if (e.workers > job::kMostWorkers)
    fail(ErrorCode::kInvalid, "a job has at most {} workers, not {}", job::kMostWorkers, e.workers);
  if (std::exchange(wanted_workers_, e.workers) != e.workers)
    say(fmt::format("{} worker{} wanted from now on", e.workers, e.workers == 1 ? " is" : "s are"));
  drain_surplus();
  effect(Effect::Answer{e.ticket, Reply::Empty{}});
}

// All of them or none. Whoever is being drained already is not counted twice, and one whose connection is
// broken only if it was not surplus: launchers may have replaced it.
void JobState::take(const Event::Drain& e) {
  check_steerable();
  if (e.members.empty()) fail(ErrorCode::kInvalid, "which workers are to be drained?");
  std::set<uint64_t> leaving;
  for (const std::string& name : e.members)
    if (const Member& worker = worker_named(name); !worker.draining) leaving.insert(worker.incarnation);
  uint32_t wanted = wanted_workers_;
  size_t staying = members_.staying_workers();
  for (const uint64_t incarnation : leaving) {
    if (members_.find(incarnation)->connected || staying <= wanted) --wanted;
    --staying;
  }
  if (wanted == 0)
    fail(ErrorCode::kInvalid,
         "no worker would be wanted any more ({} now): let another one join first, or end the job (embers "
         "stop)",
         wanted_workers_);
  wanted_workers_ = wanted;
  for (const uint64_t incarnation : leaving) drain(*members_.find(incarnation));
  effect(Effect::Answer{e.ticket, Reply::Empty{}});
}

void JobState::take(const Event::End& e) {
  check_steerable();
  saves_ &= e.save;
  stop(!e.why.empty() ? e.why : e.save ? "embers stop" : "embers stop --no-save");
  effect(Effect::Answer{e.ticket, Reply::Empty{}});
}

// By its label, its name ("worker 3", "worker-3") or its number.
Member& JobState::worker_named(const std::string& name) {
  std::vector<Member*> found;
  std::vector<std::string> known;
  for (const auto& [incarnation, m] : members_.all()) {
    Member& member = *members_.find(incarnation);
    const std::string number = std::to_string(m.number);
    const bool full = name == m.name() || name == fmt::format("{}-{}", m.role(), number);
    if (full && !m.worker())
      fail(ErrorCode::kInvalid, "{} cannot be drained: only workers come and go while a job runs", m.name());
    if (!m.worker()) continue;
    known.push_back(m.label.empty() ? m.name() : fmt::format("{} ({})", m.name(), m.label));
    if (full || name == number) return member;
    if (!m.label.empty() && name == m.label) found.push_back(&member);
  }
  if (found.size() == 1) return *found.front();
  if (found.size() > 1)
    fail(ErrorCode::kInvalid, "{} workers have the label '{}': name one of {}", found.size(), name,
         fmt::join(known, ", "));
  if (known.empty()) fail(ErrorCode::kInvalid, "there is no worker '{}': none has joined", name);
  const size_t others = known.size() - std::min(known.size(), kMostNamed);
  known.resize(known.size() - others);
  fail(ErrorCode::kInvalid, "there is no worker '{}'; the job has {}{}", name, fmt::join(known, ", "),
       others == 0 ? "" : fmt::format(" and {} others", others));
}

void JobState::drain(Member& worker) {
  members_.drain(worker);
  orders_.give(worker.incarnation, Order::What::kDrain, 0, now_);
  say(fmt::format("{} is to finish what it holds, and to leave", worker.describe()));
  answer_order(worker.incarnation);  // first: who has no more work leaves, and should know why
  for (WaitingList* list : {&waiting_leases_, &waiting_draws_})
    if (const auto ticket = list->take(worker.incarnation))
      effect(Effect::Answer{*ticket, Reply::Lease{}});  // nothing any more
}

// The youngest ones go. Those whose connection is broken may never come back, and are not counted.
void JobState::drain_surplus() {
  if (members_.staying_workers() <= wanted_workers_) return;
  std::vector<Member*> active = members_.active();
  for (; active.size() > wanted_workers_; active.pop_back()) drain(*active.back());
}

}  // namespace embers
