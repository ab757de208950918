#include "master/state/membership.h"

#include <fmt/format.h>

#include <algorithm>

namespace embers {

std::string Member::describe() const {
  return fmt::format("{} {} (pid {} on {})", owner ? "shard" : "worker", number, pid, host);
}

Member& Membership::add(Member member, Time now) {
  member.incarnation = ++last_incarnation_;
  if (!member.owner) member.number = workers_joined_++;
  member.last_seen = now;
  return members_[member.incarnation] = std::move(member);
}

Member* Membership::find(uint64_t incarnation) {
  const auto found = members_.find(incarnation);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Membership::find(uint64_t incarnation) const {
  const auto found = members_.find(incarnation);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Membership::find_owner(uint32_t number) const {
  for (const auto& [incarnation, member] : members_)
    if (member.owner && member.number == number) return &member;
  return nullptr;
}

std::vector<uint64_t> Membership::behind(uint64_t link) const {
  std::vector<uint64_t> found;
  for (const auto& [incarnation, member] : members_)
    if (member.link == link) found.push_back(incarnation);
  return found;
}

const Member* Membership::silent_since(Time deadline) const {
  for (const auto& [incarnation, member] : members_)
    if (member.last_seen < deadline) return &member;
  return nullptr;
}

void Membership::grant_time(Time now) {
  for (auto& [incarnation, member] : members_) member.last_seen = now;
}

size_t Membership::count(bool owner) const {
  return std::count_if(members_.begin(), members_.end(),
                       [&](const auto& m) { return m.second.owner == owner; });
}

}  // namespace embers
