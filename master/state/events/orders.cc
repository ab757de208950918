#include "master/state/events/orders.h"

#include <algorithm>
#include <utility>

namespace embers {

uint64_t Orders::give(uint64_t member, Order::What what, uint64_t value, Time now) {
  Of& of = members_[member];
  of.open.push_back({{++of.last, what, value}, now});
  return of.last;
}

std::optional<Ticket> Orders::ask(uint64_t member, Ticket ticket, uint64_t received, uint64_t carried_out,
                                  Time now) {
  const auto known = members_.find(member);
  const uint64_t last = known == members_.end() ? 0 : known->second.last;
  if (received > last || carried_out > received)
    fail(ErrorCode::kInvalid,
         "a member says that it has received order {} and carried out order {}; the last one given is {}",
         received, carried_out, last);
  Of& of = members_[member];
  while (!of.open.empty() && of.open.front().order.number <= carried_out) of.open.pop_front();
  const auto earlier = std::exchange(of.request, Request{ticket, received, now});
  return earlier ? std::optional(earlier->ticket) : std::nullopt;
}

const Order* Orders::Of::next(uint64_t received) const {
  const auto found =
      std::find_if(open.begin(), open.end(), [&](const Given& g) { return g.order.number > received; });
  return found == open.end() ? nullptr : &found->order;
}

std::optional<Orders::Settled> Orders::ready(uint64_t member) {
  const auto known = members_.find(member);
  if (known == members_.end() || !known->second.request) return std::nullopt;
  const Order* const next = known->second.next(known->second.request->received);
  if (next == nullptr) return std::nullopt;
  return Settled{std::exchange(known->second.request, std::nullopt)->ticket, *next};
}

std::vector<Orders::Settled> Orders::ready(Time none_before) {
  std::vector<Settled> settled;
  for (auto& [member, of] : members_) {
    if (!of.request) continue;
    const Order* const next = of.next(of.request->received);
    if (next == nullptr && of.request->since >= none_before) continue;
    settled.push_back({of.request->ticket, next == nullptr ? Order{} : *next});
    of.request.reset();
  }
  return settled;
}

std::optional<Ticket> Orders::forget(uint64_t member) {
  const auto known = members_.extract(member);
  if (!known || !known.mapped().request) return std::nullopt;
  return known.mapped().request->ticket;
}

bool Orders::carried_out(uint64_t member, uint64_t number) const {
  const auto known = members_.find(member);
  if (known == members_.end() || number > known->second.last) return false;
  const auto& open = known->second.open;
  return open.empty() || number < open.front().order.number;
}

std::vector<uint64_t> Orders::late(Time given_before) const {
  std::vector<uint64_t> members;
  for (const auto& [member, of] : members_)
    if (!of.open.empty() && of.open.front().at < given_before) members.push_back(member);
  return members;
}

size_t Orders::waiting() const {
  size_t waiting = 0;
  for (const auto& [member, of] : members_) waiting += of.request.has_value();
  return waiting;
}

}  // namespace embers
