// Who is given which minibatches, and what becomes of them.
#include <fmt/ranges.h>

#include <algorithm>

#include "master/state/job_state.h"

namespace embers {
namespace {

constexpr uint32_t kEvaluationLease = 4;          // minibatches
constexpr auto kQuiet = std::chrono::seconds(1);  // longer than it takes between two questions

std::string minibatches(size_t count) { return fmt::format("{} minibatch{}", count, count == 1 ? "" : "es"); }

}  // namespace

void JobState::take(const Event::Lease& e) {
  check_failed(e.incarnation);
  quiet_.erase(e.incarnation);
  Member& worker = member(e.incarnation);
  if (worker.token != 0) take_back_lost(e.incarnation, e.received);
  if (worker.draining) return effect(Effect::Answer{e.ticket, Reply::Lease{}});
  if (worker.window == 0) return wait(waiting_leases_, {e.ticket, e.incarnation, now_});
  worker.away = false;
  wait(waiting_draws_, {e.ticket, e.incarnation, now_});
}

// A worker that asks for more has received all that it was given, unless an answer was lost with a
// connection.
void JobState::take_back_lost(uint64_t worker, uint64_t received) {
  const bool was_late = deadlines_.is_late(worker);
  report_.released += train_book_.revoke(worker, received) + eval_book_.revoke(worker, received);
  deadlines_.revoked(worker, received);
  if (was_late && !deadlines_.is_late(worker)) no_longer_late(worker);
}

// A job that stops still finishes the version it has begun, or (async: see stop()) what some owner may have
// applied already.
bool JobState::may_grant() const {
  if (paused_ || (!trains() && phase_ != Phase::kEvaluating)) return false;
  if (!stopped()) return true;
  return trains() && (!sync() || !has_begun_no_version());
}

uint32_t JobState::most_to_grant(uint64_t incarnation) {
  const auto& training = config_->job.training;
  if (phase_ == Phase::kEvaluating) {  // a share that leaves something for the others
    const uint64_t workers = std::max<uint64_t>(members_.workers(), 1);
    const uint64_t share = evaluation_window(training.batch_size, workers) / (2 * workers);
    return static_cast<uint32_t>(std::min<uint64_t>(share, kEvaluationLease));
  }
  if (sync()) return 1;
  if (!bounded()) return training.minibatches_per_lease;
  const uint64_t room = clocks_.room(incarnation, train_book_.unfinished_by(incarnation));
  return static_cast<uint32_t>(std::min<uint64_t>(room, training.minibatches_per_lease));
}

// Called after every event, with thousands of workers waiting at times: those that nothing has changed for
// are not looked at.
void JobState::serve_leases() {
  if (phase_ >= Phase::kEnding) {  // those who wait when a job fails are told by fail_job()
    for (const Waiting& w : waiting_leases_.take_all()) effect(Effect::Answer{w.ticket, Reply::Lease{}});
    return;
  }
  if (bounded()) {
    waiting_leases_.for_each(  // all, before any is granted
        [&](const Waiting& w) {
          if (!deadlines_.is_late(w.incarnation)) clocks_.add(w.incarnation);
        },
        std::exchange(served_.clocked, waiting_leases_.next()));
    if (served_.slowest != clocks_.slowest()) served_.until = 0;
    served_.slowest = clocks_.slowest();
  }
  if (waiting_leases_.empty() || !may_grant() || begins_nothing() || !book().has_work()) {
    served_.until = 0;
    return;
  }
  waiting_leases_.take_if(
      [&](const Waiting& w) {
        if (deadlines_.is_late(w.incarnation)) return false;
        auto granted = book().grant(w.incarnation, most_to_grant(w.incarnation));
        if (!granted) return false;
        if (!deadlines_.holds(w.incarnation)) members_.find(w.incarnation)->began_at = finished_;
        deadlines_.granted(w.incarnation, *granted, now_);
        effect(Effect::Answer{w.ticket, leased(std::move(*granted))});
        return true;
      },
      served_.until, [&] { return book().has_work(); });
  // Those who still wait have no room, unless the work ran out before they were looked at.
  if (bounded() && book().has_work()) served_.until = waiting_leases_.next();
}

Reply::Lease JobState::leased(LeaseBook::Lease lease) const {
  const bool training = trains();
  const uint64_t version = training && sync() ? window_.version_of(lease.parts.front().minibatch) : 0;
  return {training ? Reply::Lease::Kind::kTrain : Reply::Lease::Kind::kEvaluate, epoch_, version,
          std::move(lease)};
}

void JobState::take(const Event::Done& e) {
  check_failed(e.incarnation);
  Member& worker = member(e.incarnation);
  worker.last_seen = now_;
  quiet_.erase(e.incarnation);
  const bool was_late = deadlines_.is_late(e.incarnation);
  const bool held = deadlines_.finished(e.incarnation, e.lease, e.minibatch, !e.returned, now_);
  if (held && !e.returned) {
    ++worker.done;
    worker.examples += e.examples;
    worker.last_done = now_;
  }
  if (was_late && !deadlines_.is_late(e.incarnation)) no_longer_late(e.incarnation);
  bool accepted = false;
  if (trains() || phase_ == Phase::kEvaluating) {
    if (e.returned) {
      accepted = book().give_back(e.lease, e.minibatch, e.attempt);
      report_.released += accepted;
    } else {
      accepted = book().complete(e.lease, e.minibatch, e.attempt);
      if (accepted) {
        ++finished_;
        report_.skipped_rows += e.skipped;
        report_.direct_rows += e.direct_rows;
        report_.owner_rows += e.owner_rows;
        trains() ? trained(e) : evaluated(e);
      }
    }
  }
  if (held) worker.began_at = finished_;
  if (!accepted || e.returned) serve_all_again();  // it may have more room than before
  effect(Effect::Answer{e.ticket, Reply::Done{accepted}});
}

void JobState::trained(const Event::Done& e) {
  sums_.loss_sum += e.loss_sum;
  sums_.examples += e.examples;
  sums_.keys += e.keys;
  sums_.cache_hits += e.cache_hits;
  sums_.stages.add(e.stages);
  trained_examples_ += e.examples;
  trained_any_ |= e.examples > 0;
  report_.late_pulls += e.late_pulls;
  clocks_.advance(e.incarnation);
  if (sync()) window_.complete(e.minibatch, e.attempt, e.examples);
  effect(Effect::CountTrained{});
}

void JobState::evaluated(const Event::Done& e) {
  evaluated_examples_ += e.examples;
  effect(Effect::CountEvaluated{e.minibatch});
}

// Others may compute what a late worker holds, and nobody waits for it; whose push comes first counts. A
// late worker is given no more work until it finishes something.
void JobState::check_late() {
  if (paused_ || (phase_ != Phase::kTraining && phase_ != Phase::kEvaluating)) {
    quiet_.clear();
    return;
  }
  for (const LeaseDeadlines::Late& late : deadlines_.newly_late(now_)) {
    lease_to_others(late.worker);
    say(fmt::format("{} (job.lease_timeout: {:.1f} s); what it holds ({}) is leased to others, too",
                    describe(late), deadlines_.limit().count(), minibatches(late.held)));
  }
  find_quiet();
  if (bounded() && checkpoint_ && trains() && train_book_.contested()) hold_nobody_up();
  const auto late = deadlines_.late(now_);
  auto idle = quiet_;
  std::erase_if(idle, [this](const auto& worker) { return deadlines_.holds(worker.first); });
  const size_t workers = members_.workers();
  if (workers == 0 || late.size() + idle.size() < workers) return;  // somebody computes, or waits for work
  if (late.empty() && config_->job.from_worker) return;             // programs may have something else to do
  std::vector<std::string> all;
  LeaseDeadlines::Duration least = LeaseDeadlines::Duration::max();
  for (const LeaseDeadlines::Late& l : late) {
    all.push_back(fmt::format("{} (it holds {})", describe(l), minibatches(l.held)));
    least = std::min(least, l.taken);
  }
  for (const auto& [worker, since] : idle) {
    all.push_back(fmt::format("{} has had no work for {:.1f} s and asks for none",
                              members_.find(worker)->describe(), seconds_since(since)));
    least = std::min<LeaseDeadlines::Duration>(least, now_ - since);
  }
  if (least <= deadlines_.end()) return;
  fail_job(Error(ErrorCode::kLost,
                 fmt::format("{}; no other worker can compute what is left: job.lease_timeout is {:.1f} s{}",
                             fmt::join(all, "; "), deadlines_.limit().count(),
                             config_->output.empty() ? ""
                                                     : ", the last checkpoint is where to go on from "
                                                       "(--resume)")));
}

// With a window it may have begun nothing: its program does something else.
std::string JobState::describe(const LeaseDeadlines::Late& late) const {
  const Member& worker = *members_.find(late.worker);
  const bool begun = worker.window == 0 || deadlines_.has_begun(late.worker);
  return fmt::format("{} has {} minibatch {} for {:.1f} s", worker.describe(),
                     begun ? "worked on" : "held, but not begun,", late.minibatch, late.taken.count());
}

// For a checkpoint others finish what a late worker has begun. Those who wait for the checkpoint do nothing
// meanwhile, though they may hold what they have not begun. They take part again when they ask for something.
void JobState::hold_nobody_up() {
  for (const auto& [worker, since] : quiet_)
    if (now_ - since >= kQuiet) clocks_.remove(worker);
}

// A worker without work asks for some at once. One that does not will not take over from a late one either.
void JobState::find_quiet() {
  std::map<uint64_t, Time> quiet;
  for (const auto& [incarnation, m] : members_.all()) {
    const bool computes = m.window > 0 ? deadlines_.has_begun(incarnation) : deadlines_.holds(incarnation);
    if (!m.worker() || !m.connected || computes || waiting_leases_.contains(incarnation) ||
        waiting_draws_.contains(incarnation) || waiting_begins_.contains(incarnation))
      continue;
    const auto known = quiet_.find(incarnation);
    quiet.emplace(incarnation, known == quiet_.end() ? now_ : known->second);
  }
  quiet_ = std::move(quiet);
}

void JobState::no_longer_late(uint64_t worker) {
  serve_all_again();
  lease_to_it_alone(worker);
  say(fmt::format("{} goes on", members_.find(worker)->describe()));
}

// Whoever is first counts. Nobody waits for the worker.
size_t JobState::lease_to_others(uint64_t worker) {
  const size_t opened = train_book_.open(worker) + eval_book_.open(worker);
  clocks_.remove(worker);
  report_.released += opened;
  return opened;
}

void JobState::lease_to_it_alone(uint64_t worker) {
  train_book_.reclaim(worker);
  eval_book_.reclaim(worker);
  if (trains() && train_book_.unfinished_by(worker) > 0) clocks_.add(worker);
}

// Asks owners for their counts first; answered() shows them.
void JobState::show_progress() {
  if (!shows_progress_ || stats_pending_ || (phase_ != Phase::kTraining && phase_ != Phase::kEvaluating))
    return;
  if (!trained_any_ && phase_ == Phase::kTraining) return;
  stats_pending_ = true;
  ask_owners(Question::Stats{epoch_, {}}, {Then::What::kProgress});
}

}  // namespace embers
