#include "master/state/leases.h"

#include <algorithm>

namespace embers {
namespace {

constexpr uint64_t kRecordsUnderWay = uint64_t{4} << 20;  // 16 bytes each: 64 MiB
constexpr uint64_t kMinibatchesUnderWay = 65536;          // some hundred bytes each, however small

}  // namespace

LeaseBook::LeaseBook(uint64_t total, uint64_t first, const std::vector<uint64_t>& again, uint64_t last_lease)
    : total_(total), next_(std::min(first, total)), limit_(total), last_lease_(last_lease) {
  for (const uint64_t minibatch : again)
    if (minibatch < next_) again_.emplace(minibatch, 0);  // those from `first` on are to be done anyway
}

std::optional<LeaseBook::Lease> LeaseBook::grant(uint64_t worker, uint32_t most) {
  Lease lease{last_lease_ + 1, {}};
  while (lease.parts.size() < most && !again_.empty() && again_.begin()->first < limit_) {
    const auto [minibatch, attempts] = *again_.begin();
    again_.erase(again_.begin());
    lease.parts.push_back({minibatch, attempts + 1});
  }
  while (lease.parts.size() < most && next_ < std::min(limit_, total_)) lease.parts.push_back({next_++, 1});
  if (lease.parts.empty()) return std::nullopt;
  ++last_lease_;
  for (const Part& p : lease.parts) held_[p.minibatch] = {worker, lease.id, p.attempt};
  return lease;
}

std::map<uint64_t, LeaseBook::Held>::iterator LeaseBook::find(uint64_t lease, uint64_t minibatch,
                                                              uint32_t attempt) {
  const auto held = held_.find(minibatch);
  const bool his = held != held_.end() && held->second.lease == lease && held->second.attempt == attempt;
  return his ? held : held_.end();
}

bool LeaseBook::complete(uint64_t lease, uint64_t minibatch, uint32_t attempt) {
  const auto held = find(lease, minibatch, attempt);
  if (held != held_.end()) {
    held_.erase(held);
    return true;
  }
  const auto late = late_.find({minibatch, attempt});
  if (late == late_.end() || late->second.lease != lease) return false;
  late_.erase(late);
  if (again_.erase(minibatch) > 0) return true;
  const auto other = held_.extract(minibatch);
  if (!other) return false;  // it is done
  late_[{minibatch, other.mapped().attempt}] = other.mapped();
  return true;
}

bool LeaseBook::give_back(uint64_t lease, uint64_t minibatch, uint32_t attempt) {
  const auto held = find(lease, minibatch, attempt);
  if (held == held_.end()) {
    if (const auto late = late_.find({minibatch, attempt});
        late != late_.end() && late->second.lease == lease)
      late_.erase(late);
    return false;
  }
  again_[minibatch] = held->second.attempt;
  held_.erase(held);
  return true;
}

size_t LeaseBook::open(uint64_t worker) {
  return std::erase_if(held_, [&](const auto& entry) {
    const auto& [minibatch, held] = entry;
    if (held.worker != worker) return false;
    again_[minibatch] = held.attempt;
    late_[{minibatch, held.attempt}] = held;
    return true;
  });
}

void LeaseBook::reclaim(uint64_t worker) {
  std::erase_if(late_, [&](const auto& entry) {
    const auto& [minibatch, attempt] = entry.first;
    if (entry.second.worker != worker) return false;
    const auto again = again_.find(minibatch);
    if (again == again_.end() || again->second != attempt) return false;
    again_.erase(again);
    held_[minibatch] = entry.second;
    return true;
  });
}

size_t LeaseBook::revoke(uint64_t worker, uint64_t received) {
  const auto taken = [&](const Held& held) { return held.worker == worker && held.lease > received; };
  std::erase_if(late_, [&](const auto& entry) { return taken(entry.second); });
  return std::erase_if(held_, [&](const auto& entry) {
    if (!taken(entry.second)) return false;
    again_[entry.first] = entry.second.attempt;
    return true;
  });
}

size_t LeaseBook::unfinished_by(uint64_t worker) const {
  const auto his = [&](const auto& entry) { return entry.second.worker == worker; };
  return static_cast<size_t>(std::count_if(held_.begin(), held_.end(), his) +
                             std::count_if(late_.begin(), late_.end(), his));
}

std::vector<uint64_t> LeaseBook::again() const {
  std::vector<uint64_t> out;
  for (const auto& [minibatch, attempts] : again_) out.push_back(minibatch);
  return out;
}

uint64_t evaluation_window(uint64_t batch_size, uint64_t workers) {
  const uint64_t fit = std::min(kRecordsUnderWay / std::max<uint64_t>(batch_size, 1), kMinibatchesUnderWay);
  return std::max(fit, 2 * std::max<uint64_t>(workers, 1));
}

}  // namespace embers
