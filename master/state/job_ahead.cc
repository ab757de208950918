// Workers with a window: they draw leases ahead of their work, since loaders do, and say when the work on
// each begins. Their pipelines are first in, first out: what is drawn later is begun later.
#include <algorithm>

#include "master/state/job_state.h"

namespace embers {
namespace {

// After this time what a worker was to draw is drawn by others: it may be busy with something else.
constexpr auto kDrawsWithin = std::chrono::seconds(1);

}  // namespace

// Sync: workers of whom each draws its own stripe, and so has a share of every version, however fast others
// draw. In order; those that draw nothing, as far as is known, have none.
std::vector<uint64_t> JobState::drawing() const {
  std::vector<uint64_t> workers;
  for (const auto& [incarnation, m] : members_.all())
    if (m.window > 0 && m.connected && !m.draining && !m.away && !deadlines_.is_late(incarnation))
      workers.push_back(incarnation);
  return workers;
}

// One that asks has a stripe, too.
LeaseBook::Stripe JobState::stripe_of(uint64_t worker, const std::vector<uint64_t>& drawing) {
  const auto place = std::ranges::lower_bound(drawing, worker);
  const bool is_new = place == drawing.end() || *place != worker;
  return {drawing.size() + is_new, static_cast<uint64_t>(place - drawing.begin())};
}

std::optional<LeaseBook::Lease> JobState::draw(const Member& worker) {
  const uint64_t incarnation = worker.incarnation;
  if (!may_grant() || deadlines_.is_late(incarnation))
    return std::nullopt;  // a late one finishes something first
  if (book().unfinished_by(incarnation) >= worker.window) return std::nullopt;
  if (phase_ == Phase::kEvaluating || !sync())
    return book().grant(incarnation, std::min(most_to_grant(incarnation), 1u), false);
  const LeaseBook::Stripe stripe = stripe_of(incarnation, drawing());
  const bool has_next = train_book_.lowest_free(stripe).value_or(UINT64_MAX) < window_.limit();
  return stopped() && !has_next ? std::nullopt : train_book_.grant_ahead(incarnation, stripe);
}

// A worker that holds leases is never kept waiting for more: what it waits for may depend on them.
void JobState::serve_draws() {
  if (phase_ >= Phase::kEnding) {
    for (const Waiting& w : waiting_draws_.take_all()) effect(Effect::Answer{w.ticket, Reply::Lease{}});
    return;
  }
  waiting_draws_.take_if([&](const Waiting& w) {
    Member& worker = *members_.find(w.incarnation);
    if (bounded() && !deadlines_.is_late(w.incarnation)) clocks_.add(w.incarnation);
    if (sync() && phase_ == Phase::kTraining && train_book_.unfinished_by(w.incarnation) == 0)
      find_away(window_.limit(), w.incarnation, w.since);
    if (auto granted = draw(worker)) {
      if (!deadlines_.holds(w.incarnation)) worker.began_at = finished_;
      deadlines_.granted(w.incarnation, *granted, now_);
      effect(Effect::Answer{w.ticket, leased(std::move(*granted))});
      return true;
    }
    if (!deadlines_.holds(w.incarnation)) return false;
    effect(Effect::Answer{w.ticket, Reply::Lease{Reply::Lease::Kind::kLater}});
    return true;
  });
}

void JobState::take(const Event::Begin& e) {
  check_failed(e.incarnation);
  Member& worker = member(e.incarnation);
  worker.last_seen = now_;
  quiet_.erase(e.incarnation);
  const bool was_late = deadlines_.is_late(e.incarnation);
  deadlines_.asks(e.incarnation, now_);
  if (was_late) no_longer_late(e.incarnation);
  if (bounded() && trains()) clocks_.add(e.incarnation);
  wait(waiting_begins_, {e.ticket, e.incarnation, now_});
  begins_[e.incarnation] = e;
}

// Sync: a minibatch of a later version waits for the one at hand. If that waits for this worker in turn,
// since what is missing lies behind the first lease of its pipeline, or is its to draw, it is told to begin
// anew.
void JobState::serve_begins() {
  if (begins_.size() != waiting_begins_.size())
    std::erase_if(begins_, [&](const auto& b) { return !waiting_begins_.contains(b.first); });
  if (paused_ || phase_ == Phase::kFailed) return;
  const bool works_now = trains() || phase_ == Phase::kEvaluating, begins_nothing = this->begins_nothing();
  waiting_begins_.take_if([&](const Waiting& w) {
    const Event::Begin& b = begins_.at(w.incarnation);
    bool begun = works_now && book().holds(b.lease, b.minibatch, b.attempt);
    // It may ask again about what it has begun, where an answer was lost.
    if (begun && begins_nothing && !book().has_begun(b.minibatch)) return false;
    if (begun && sync() && phase_ == Phase::kTraining && b.minibatch >= window_.limit()) {
      begun = false;
      const uint64_t below = window_.begin_of(b.minibatch);  // of earlier versions
      find_away(below, w.incarnation, w.since);
      const auto is_before = [&](std::optional<uint64_t> m) { return m && *m < below; };
      if (!stopped() && !is_before(train_book_.lowest_not_begun(w.incarnation)) &&
          !is_before(train_book_.lowest_free(stripe_of(w.incarnation, drawing()))))
        return false;
    }
    if (begun) book().begin(b.lease, b.minibatch, b.attempt);
    deadlines_.answered(w.incarnation, b.lease, b.minibatch, begun, now_);
    effect(Effect::Answer{w.ticket, Reply::Begin{begun}});
    begins_.erase(w.incarnation);
    return true;
  });
}

// The lowest minibatch that nobody holds is another worker's to draw, who has not done so since then: it is
// away, and its stripe is drawn by the others until it draws again.
void JobState::find_away(uint64_t below, uint64_t asker, Time since) {
  if (now_ - std::max(since, found_away_) < kDrawsWithin) return;
  const auto free = train_book_.lowest_free();
  const std::vector<uint64_t> workers = drawing();
  if (!free || *free >= below || workers.empty()) return;
  const uint64_t other = workers[*free % workers.size()];
  if (other == asker) return;
  members_.find(other)->away = true;
  found_away_ = now_;
}

}  // namespace embers
