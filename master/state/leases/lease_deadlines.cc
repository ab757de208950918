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

bool LeaseDeadlines::Working::computes() const {
  return std::ranges::any_of(held, [](const auto& h) { return h.second.has_value(); });
}

void LeaseDeadlines::granted(uint64_t worker, const LeaseBook::Lease& lease, Time now) {
  if (lease.parts.empty()) return;
  Working& working = working_[worker];
  if (working.held.empty()) working.restart(now);
  for (const LeaseBook::Part& part : lease.parts) working.held.try_emplace({lease.id, part.minibatch});
}

void LeaseDeadlines::asks(uint64_t worker, Time now) {
  const auto found = working_.find(worker);
  if (found == working_.end()) return;
  Working& working = found->second;
  working.since = now;
  working.late = false;
  working.asks = true;
}

void LeaseDeadlines::answered(uint64_t worker, uint64_t lease, uint64_t minibatch, bool begins, Time now) {
  const auto found = working_.find(worker);
  if (found == working_.end()) return;
  Working& working = found->second;
  working.asks = false;
  if (!working.computes()) working.since = now;
  if (const auto held = working.held.find({lease, minibatch}); begins && held != working.held.end())
    held->second = now;
}

void LeaseDeadlines::disconnected(uint64_t worker, Time now) {
  const auto found = working_.find(worker);
  if (found == working_.end()) return;
  found->second.restart(now);
  found->second.late = found->second.asks = false;
}

bool LeaseDeadlines::finished(uint64_t worker, uint64_t lease, uint64_t minibatch, bool computed, Time now) {
  const auto found = working_.find(worker);
  if (found == working_.end()) return false;
  Working& working = found->second;
  const auto held = working.held.find({lease, minibatch});
  if (held == working.held.end()) return false;
  if (computed) {
    recent_.push_back(now - std::max(working.from, held->second.value_or(working.from)));
    if (recent_.size() > kRecent) recent_.pop_front();
  }
  working.held.erase(held);
  working.restart(now);
  working.late = false;
  if (working.held.empty()) working_.erase(found);
  return true;
}

void LeaseDeadlines::revoked(uint64_t worker, uint64_t received) {
  const auto found = working_.find(worker);
  if (found == working_.end()) return;
  Working& working = found->second;
  working.held.erase(working.held.upper_bound({received, std::numeric_limits<uint64_t>::max()}),
                     working.held.end());
  if (working.held.empty()) working_.erase(found);
}

void LeaseDeadlines::grant_time(Time now) {
  for (auto& [worker, working] : working_) working.restart(now);
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
    if (!working.late && now - working.since > limit && !(working.asks && !working.computes())) {
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

bool LeaseDeadlines::has_begun(uint64_t worker) const {
  const auto found = working_.find(worker);
  return found != working_.end() && found->second.computes();
}

bool LeaseDeadlines::is_late(uint64_t worker) const {
  const auto found = working_.find(worker);
  return found != working_.end() && found->second.late;
}

}  // namespace embers
