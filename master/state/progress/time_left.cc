#include "master/state/progress/time_left.h"

#include <algorithm>

namespace embers {
namespace {

constexpr double kSpacing = 0.5;  // seconds between samples: it bounds how many there are

double seconds_between(Pace::Time from, Pace::Time to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

}  // namespace

void Pace::work(uint64_t done, Time now) {
  if (!last_) {
    last_ = {now, done};
    return;
  }
  seconds_ += seconds_between(last_->at, now);
  const uint64_t more = done > last_->done ? done - last_->done : 0;
  last_ = {now, last_->done + more};
  if (more == 0) return;
  done_ += more;
  if (samples_.size() > 2 && seconds_ - samples_[samples_.size() - 2].seconds < kSpacing) samples_.pop_back();
  samples_.push_back({seconds_, done_});
  while (samples_.size() > 2 && seconds_ - samples_[1].seconds >= kSpan &&
         done_ - samples_[1].done >= kMinibatches)
    samples_.pop_front();
}

void Pace::pause(bool whole) {
  whole_ |= whole && done_ > 0;
  last_.reset();
}

// From where the recent ones count; null if they tell nothing. The first minibatches of all come late: they
// load libraries and create rows. So the time counts from when they were done, unless there is no more.
const Pace::Sample* Pace::first() const {
  const Sample* const sample = &samples_[samples_.front().done == 0 && samples_.size() > 1 ? 1 : 0];
  const Sample& last = samples_.back();
  if (last.done - sample->done >= kLeastMinibatches && last.seconds - sample->seconds >= kLeastSpan)
    return sample;
  return whole_ ? &samples_.front() : nullptr;
}

bool Pace::stalled() const {
  if (!last_ || idle() <= kStall) return false;
  const Sample* const from = first();
  if (from == nullptr) return true;
  const Sample& last = samples_.back();
  const double usual = (last.seconds - from->seconds) / static_cast<double>(last.done - from->done);
  return idle() > kStalled * usual;
}

std::optional<double> Pace::seconds_each() const {
  const Sample* const from = first();
  if (from == nullptr || stalled()) return std::nullopt;
  const Sample& last = samples_.back();
  const auto done = static_cast<double>(last.done - from->done);
  // What takes longer than usual shows before it is done.
  return std::max((last.seconds - from->seconds) / done, (seconds_ - from->seconds) / (done + 1));
}

void TimeLeft::work(Kind kind, uint64_t done, Time now) {
  end_gap(now);
  (kind == Kind::kTraining ? training_ : evaluation_).work(done, now);
}

void TimeLeft::finish(Time now) {
  training_.pause(true);
  evaluation_.pause(true);
  gap_since_ = now;
}

void TimeLeft::pause() {
  training_.pause(false);
  evaluation_.pause(false);
  gap_since_.reset();
}

void TimeLeft::end_epoch(Time now) {
  end_gap(now);
  gaps_of_all_ += gaps_of_epoch_;
  gaps_of_epoch_ = 0;
  ++epochs_;
}

void TimeLeft::end_gap(Time now) {
  if (gap_since_) gaps_of_epoch_ += seconds_between(*gap_since_, now);
  gap_since_.reset();
}

std::optional<double> TimeLeft::seconds(const Rest& rest) const {
  const std::optional<double> train = training_.seconds_each();
  std::optional<double> evaluate = evaluation_.seconds_each();
  if (!evaluate && !evaluation_.stalled()) evaluate = train;
  if ((rest.training > 0 && !train) || (rest.evaluation > 0 && !evaluate)) return std::nullopt;
  double sum = static_cast<double>(rest.training) * train.value_or(0) +
               static_cast<double>(rest.evaluation) * evaluate.value_or(0);
  if (epochs_ > 0) sum += static_cast<double>(rest.epochs) * gaps_of_all_ / static_cast<double>(epochs_);
  return sum <= kMost ? std::optional(sum) : std::nullopt;
}

}  // namespace embers
