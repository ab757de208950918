#include "master/state/leases/lease_deadlines.h"

#include <algorithm>
#include <limits>

namespace embers {
namespace {

std::vector<LeaseDeadlines::Late> in_order(std::vector<LeaseDeadlines::Late> late) {
  std::sort(late.begin(), late.end(), [](const auto& a, const auto& b) { return a.worker < b.worker; });
  return late;
}

}  // namespace

void LeaseDeadlines::granted(uint64_t worker, const LeaseBook::Lease& lease, Time now) {
  if (lease.parts.empty()) return;
  Working& working = working_[worker];
  if (working.held.empty()) working.since = now;
  for (const LeaseBook::Part& part : lease.parts) working.held.insert({lease.id, part.minibatch});
}

void LeaseDeadlines::waits(uint64_t worker) {
  if (const auto found = working_.find(worker); found != working_.end()) {
    found->second.waits = true;
    found->second.late = false;
  }
}

void LeaseDeadlines::goes_on(uint64_t worker, Time now) {
  if (const auto found = working_.find(worker); found != working_.end()) {
    found->second.since = now;
    found->second.late = found->second.waits = false;
  }
}

bool LeaseDeadlines::finished(uint64_t worker, uint64_t lease, uint64_t minibatch, bool computed, Time now) {
  const auto found = working_.find(worker);
  if (found == working_.end() || found->second.held.erase({lease, minibatch}) == 0) return false;
  Working& working = found->second;
  if (computed) {
    recent_.push_back(now - working.since);
    if (recent_.size() > kRecent) recent_.pop_front();
  }
  working.since = now;
  working.late = false;
  if (working.held.empty()) working_.erase(found);
  return true;
}

void LeaseDeadlines::revoked(uint64_t worker, uint64_t received, Time now) {
  const auto found = working_.find(worker);
  if (found == working_.end()) return;
  Working& working = found->second;
  const auto computing = *working.held.begin();
  working.held.erase(working.held.upper_bound({received, std::numeric_limits<uint64_t>::max()}),
                     working.held.end());
  if (working.held.empty()) {
    working_.erase(found);
  } else if (*working.held.begin() != computing) {
    working.since = now;
    working.late = false;
  }
}

void LeaseDeadlines::grant_time(Time now) {
  for (auto& [worker, working] : working_) working.since = now;
}

LeaseDeadlines::Duration LeaseDeadlines::limit() const {
  if (setting_.count() > 0) return setting_;
  if (recent_.size() < kKnown) return kFirst;
  return std::max(kLeast, kTimes * *std::max_element(recent_.begin(), recent_.end()));
}

LeaseDeadlines::Duration LeaseDeadlines::end() const {
  return setting_.count() > 0 ? 2 * setting_ : std::max(kFirst, 2 * limit());
}

std::vector<LeaseDeadlines::Late> LeaseDeadlines::newly_late(Time now) {
  std::vector<Late> late;
  const Duration limit = this->limit();
  for (auto& [worker, working] : working_)
    if (!working.late && !working.waits && now - working.since > limit) {
      working.late = true;
      late.push_back(working.describe(worker, now));
    }
  return in_order(std::move(late));
}

std::vector<LeaseDeadlines::Late> LeaseDeadlines::late(Time now) const {
  std::vector<Late> late;
  for (const auto& [worker, working] : working_)
    if (working.late) late.push_back(working.describe(worker, now));
  return in_order(std::move(late));
}

bool LeaseDeadlines::is_late(uint64_t worker) const {
  const auto found = working_.find(worker);
  return found != working_.end() && found->second.late;
}

}  // namespace embers
