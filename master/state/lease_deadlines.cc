#include "master/state/lease_deadlines.h"

#include <algorithm>

namespace embers {

void LeaseDeadlines::granted(uint64_t worker, uint64_t minibatches, Time now) {
  if (minibatches == 0) return;
  Working& working = working_[worker];
  if (working.held == 0) working.since = now;
  working.held += minibatches;
}

void LeaseDeadlines::finished(uint64_t worker, bool computed, Time now) {
  const auto found = working_.find(worker);
  if (found == working_.end()) return;  // what is no longer its own says nothing about others
  if (computed) {
    recent_.push_back(now - found->second.since);
    if (recent_.size() > kRecent) recent_.pop_front();
  }
  found->second.since = now;
  if (--found->second.held == 0) working_.erase(found);
}

void LeaseDeadlines::grant_time(Time now) {
  for (auto& [worker, working] : working_) working.since = now;
}

LeaseDeadlines::Duration LeaseDeadlines::limit() const {
  if (setting_.count() > 0) return setting_;
  if (recent_.size() < kKnown) return kFirst;
  return std::max(kLeast, kTimes * *std::max_element(recent_.begin(), recent_.end()));
}

std::vector<LeaseDeadlines::Late> LeaseDeadlines::late(Time now) const {
  std::vector<Late> late;
  for (const auto& [worker, working] : working_)
    if (const Duration taken = now - working.since; taken > limit()) late.push_back({worker, taken});
  return late;
}

}  // namespace embers
