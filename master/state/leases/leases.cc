#include "master/state/leases/leases.h"

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

std::optional<LeaseBook::Lease> LeaseBook::grant(uint64_t worker, uint32_t most, bool begun) {
  Lease lease{last_lease_ + 1, {}};
  while (lease.parts.size() < most && !again_.empty() && again_.begin()->first < limit_) {
    const auto [minibatch, attempts] = *again_.begin();
    again_.erase(again_.begin());
    lease.parts.push_back({minibatch, attempts + 1});
  }
  while (lease.parts.size() < most && next_ < std::min(limit_, total_)) lease.parts.push_back({next_++, 1});
  if (lease.parts.empty()) return std::nullopt;
  ++last_lease_;
  for (const Part& p : lease.parts) held_.put(p.minibatch, {worker, lease.id, p.attempt, begun});
  return lease;
}

std::optional<uint64_t> LeaseBook::lowest_free(const Stripe& stripe) const {
  for (const auto& [minibatch, attempts] : again_)
    if (stripe.has(minibatch)) return minibatch;
  const uint64_t rest = next_ % stripe.of;
  const uint64_t minibatch = next_ + (stripe.remainder + stripe.of - rest) % stripe.of;
  return minibatch < total_ ? std::optional(minibatch) : std::nullopt;
}

std::optional<LeaseBook::Lease> LeaseBook::grant_ahead(uint64_t worker, const Stripe& stripe) {
  const auto minibatch = lowest_free(stripe);
  if (!minibatch) return std::nullopt;
  while (next_ <= *minibatch) again_.emplace(next_++, 0);
  const auto granted = again_.extract(*minibatch);
  Lease lease{++last_lease_, {{*minibatch, granted.mapped() + 1}}};
  held_.put(*minibatch, {worker, lease.id, granted.mapped() + 1, false});
  return lease;
}

bool LeaseBook::begin(uint64_t lease, uint64_t minibatch, uint32_t attempt) {
  if (find(lease, minibatch, attempt) == nullptr) return false;
  held_.begin(minibatch);
  return true;
}

std::optional<uint64_t> LeaseBook::lowest_not_begun(uint64_t worker) const {
  for (const uint64_t minibatch : held_.keys_of(worker))
    if (!held_.find(minibatch)->begun) return minibatch;
  return std::nullopt;
}

template <class Key>
void LeaseBook::Holdings<Key>::erase(const Key& key) {
  const auto found = all_.find(key);
  if (found == all_.end()) return;
  const auto of = of_.find(found->second.worker);
  of->second.erase(key);
  if (of->second.empty()) of_.erase(of);
  begun_ -= found->second.begun;
  all_.erase(found);
}

template <class Key>
std::vector<Key> LeaseBook::Holdings<Key>::of(uint64_t worker) const {
  const auto found = of_.find(worker);
  return found == of_.end() ? std::vector<Key>()
                            : std::vector<Key>(found->second.begin(), found->second.end());
}

const LeaseBook::Held* LeaseBook::find(uint64_t lease, uint64_t minibatch, uint32_t attempt) const {
  const Held* const held = held_.find(minibatch);
  return held != nullptr && held->lease == lease && held->attempt == attempt ? held : nullptr;
}

bool LeaseBook::complete(uint64_t lease, uint64_t minibatch, uint32_t attempt) {
  if (find(lease, minibatch, attempt) != nullptr) {
    held_.erase(minibatch);
    return true;
  }
  const Held* const late = late_.find({minibatch, attempt});
  if (late == nullptr || late->lease != lease) return false;
  late_.erase({minibatch, attempt});
  if (again_.erase(minibatch) > 0) return true;
  const Held* const known = held_.find(minibatch);
  if (known == nullptr) return false;  // it is done
  const Held other = *known;
  held_.erase(minibatch);
  late_.put({minibatch, other.attempt}, other);
  return true;
}

bool LeaseBook::give_back(uint64_t lease, uint64_t minibatch, uint32_t attempt) {
  const Held* const held = find(lease, minibatch, attempt);
  if (held == nullptr) {
    if (const Held* const late = late_.find({minibatch, attempt}); late != nullptr && late->lease == lease)
      late_.erase({minibatch, attempt});
    return false;
  }
  again_[minibatch] = held->attempt;
  held_.erase(minibatch);
  return true;
}

size_t LeaseBook::open(uint64_t worker) {
  const auto his = held_.of(worker);
  for (const uint64_t minibatch : his) {
    const Held held = *held_.find(minibatch);
    again_[minibatch] = held.attempt;
    late_.put({minibatch, held.attempt}, held);
    held_.erase(minibatch);
  }
  return his.size();
}

void LeaseBook::reclaim(uint64_t worker) {
  for (const Attempt& late : late_.of(worker)) {
    const auto& [minibatch, attempt] = late;
    const auto again = again_.find(minibatch);
    if (again == again_.end() || again->second != attempt) continue;
    again_.erase(again);
    held_.put(minibatch, *late_.find(late));
    late_.erase(late);
  }
}

size_t LeaseBook::revoke(uint64_t worker, uint64_t received) {
  for (const Attempt& late : late_.of(worker))
    if (late_.find(late)->lease > received) late_.erase(late);
  size_t revoked = 0;
  for (const uint64_t minibatch : held_.of(worker)) {
    const Held held = *held_.find(minibatch);
    if (held.lease <= received) continue;
    again_[minibatch] = held.attempt;
    held_.erase(minibatch);
    ++revoked;
  }
  return revoked;
}

size_t LeaseBook::unfinished_by(uint64_t worker) const { return held_.count(worker) + late_.count(worker); }

std::vector<uint64_t> LeaseBook::again() const {
  std::vector<uint64_t> out;
  for (const auto& [minibatch, attempts] : again_) out.push_back(minibatch);
  return out;
}

std::vector<uint64_t> LeaseBook::undone() const {
  std::vector<uint64_t> out = again();
  const auto middle = static_cast<std::ptrdiff_t>(out.size());
  for (const auto& [minibatch, held] : held_.all()) out.push_back(minibatch);
  std::sort(out.begin() + middle, out.end());
  std::inplace_merge(out.begin(), out.begin() + middle, out.end());
  return out;
}

bool LeaseBook::contested() const {
  return std::ranges::any_of(late_.all(), [&](const auto& late) {
    const uint64_t minibatch = late.first.first;
    return late.second.begun && (again_.contains(minibatch) || held_.find(minibatch) != nullptr);
  });
}

uint64_t evaluation_window(uint64_t batch_size, uint64_t workers) {
  const uint64_t fit = std::min(kRecordsUnderWay / std::max<uint64_t>(batch_size, 1), kMinibatchesUnderWay);
  return std::max(fit, 2 * std::max<uint64_t>(workers, 1));
}

}  // namespace embers
