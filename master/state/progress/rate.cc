#include "master/state/progress/rate.h"

namespace embers {
namespace {

double seconds(Rate::Time from, Rate::Time to) { return std::chrono::duration<double>(to - from).count(); }

}  // namespace

void Rate::add(uint64_t count, Time now) {
  // It began again, or goes on after a break, which says nothing of how fast it is.
  if (!samples_.empty() && (count < samples_.back().count || seconds(samples_.back().at, now) > span_))
    samples_.clear();
  // The latest sample is always kept, so it is replaced while it is too close to the one before.
  if (samples_.size() > 1 && seconds(samples_[samples_.size() - 2].at, now) < span_ / 10)
    samples_.back() = {count, now};
  else
    samples_.push_back({count, now});
  while (samples_.size() > 2 && seconds(samples_[1].at, now) >= span_) samples_.pop_front();
}

double Rate::per_second(Time now) const {
  if (samples_.size() < 2) return 0;
  const double time = seconds(samples_.front().at, now);
  if (time <= 0 || seconds(samples_.back().at, now) > span_) return 0;
  return static_cast<double>(samples_.back().count - samples_.front().count) / time;
}

}  // namespace embers
