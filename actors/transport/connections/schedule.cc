#include "actors/transport/connections/schedule.h"

#include <algorithm>

namespace embers {

constexpr int kMoments = 16;  // in an interval
constexpr int kCallsAtOnce = 64;

void Schedule::every(Clock::duration interval, std::function<bool()> call) {
  due_[next(Clock::now(), interval)].push_back({interval, std::move(call)});
  wait();
}

// Moments are the same for all that have the same interval.
Schedule::Clock::time_point Schedule::next(Clock::time_point now, Clock::duration interval) const {
  const auto step = std::max(interval / kMoments, Clock::duration(1));
  const auto after = now + interval - begin_;
  return begin_ + (after + step - Clock::duration(1)) / step * step;
}

void Schedule::wait() {
  if (due_.empty() || due_.begin()->first >= awaited_) return;
  awaited_ = due_.begin()->first;
  timer_.expires_at(awaited_);
  timer_.async_wait([this](auto e) {
    if (!e) run();
  });
}

// Thousands may be due at once, as after they all came at once: what arrives meanwhile is not kept waiting.
void Schedule::run() {
  awaited_ = Clock::time_point::max();
  const Clock::time_point now = Clock::now();
  for (int i = 0; i < kCallsAtOnce && !due_.empty() && due_.begin()->first <= now; ++i) {
    const Clock::time_point moment = due_.begin()->first;
    std::vector<Entry>& entries = due_.begin()->second;
    Entry entry = std::move(entries.back());
    entries.pop_back();
    if (entries.empty()) due_.erase(due_.begin());
    if (!entry.call()) continue;
    const Clock::time_point on_time = moment + entry.interval;
    due_[on_time > now ? on_time : next(now, entry.interval)].push_back(std::move(entry));
  }
  wait();
}

}  // namespace embers
