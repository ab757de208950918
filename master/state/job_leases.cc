// Who is given which minibatches, and what becomes of them.
#include <algorithm>

#include "master/state/job_state.h"

namespace embers {
namespace {

constexpr uint32_t kEvaluationLease = 4;  // minibatches

}  // namespace

void JobState::take(const Event::Lease& e) {
  check_failed(e.incarnation);
  member(e.incarnation);
  wait(waiting_leases_, {e.ticket, e.incarnation, now_});
}

// A job that stops still finishes the version it has begun, or (async: see stop()) what some owner may have
// applied already.
bool JobState::may_grant() const {
  if (paused_ || (phase_ != Phase::kTraining && phase_ != Phase::kEvaluating)) return false;
  if (!stopped()) return true;
  return phase_ == Phase::kTraining && (!sync() || train_book_.next() != window_.begin());
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
  const uint64_t room = clocks_.room(incarnation, train_book_.held_by(incarnation));
  return static_cast<uint32_t>(std::min<uint64_t>(room, training.minibatches_per_lease));
}

void JobState::serve_leases() {
  for (const Waiting& w : waiting_leases_) clocks_.add(w.incarnation);  // all, before any is granted
  std::erase_if(waiting_leases_, [&](const Waiting& w) {
    if (phase_ >= Phase::kEnding) {  // those who wait when a job fails are told by fail_job()
      effect(Effect::Answer{w.ticket, Reply::Lease{}});
      return true;
    }
    if (!may_grant()) return false;
    auto granted = book().grant(w.incarnation, most_to_grant(w.incarnation));
    if (!granted) return false;
    const bool training = phase_ == Phase::kTraining;
    effect(Effect::Answer{
        w.ticket, Reply::Lease{training ? Reply::Lease::Kind::kTrain : Reply::Lease::Kind::kEvaluate, epoch_,
                               training && sync() ? window_.version() : 0, std::move(*granted)}});
    return true;
  });
}

void JobState::take(const Event::Done& e) {
  check_failed(e.incarnation);
  member(e.incarnation).last_seen = now_;
  bool accepted = false;
  if (phase_ == Phase::kTraining || phase_ == Phase::kEvaluating) {
    if (e.returned) {
      accepted = book().give_back(e.lease, e.minibatch, e.attempt);
      report_.released += accepted;
    } else {
      accepted = book().complete(e.lease, e.minibatch, e.attempt);
      if (accepted) {
        report_.skipped_rows += e.skipped;
        report_.direct_rows += e.direct_rows;
        report_.owner_rows += e.owner_rows;
        phase_ == Phase::kTraining ? trained(e) : evaluated(e);
      }
    }
  }
  effect(Effect::Answer{e.ticket, Reply::Done{accepted}});
}

void JobState::trained(const Event::Done& e) {
  sums_.loss_sum += e.loss_sum;
  sums_.examples += e.examples;
  sums_.keys += e.keys;
  sums_.cache_hits += e.cache_hits;
  sums_.stages.add(e.stages);
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

// Asks owners for their counts first; answered() shows them.
void JobState::show_progress() {
  if (!shows_progress_ || stats_pending_ || (phase_ != Phase::kTraining && phase_ != Phase::kEvaluating))
    return;
  if (!trained_any_ && phase_ == Phase::kTraining) return;
  stats_pending_ = true;
  ask_owners(Question::Stats{}, {Then::What::kProgress});
}

}  // namespace embers
