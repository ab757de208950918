#include "master/state/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace embers {

namespace {

bool is_active(const Member& m) { return m.worker() && m.connected && !m.draining; }

}  // namespace

const char* Member::role() const { return owner ? "shard" : reader ? "reader" : "worker"; }

std::string Member::name() const { return fmt::format("{} {}", role(), number); }

std::string Member::describe() const {
  return fmt::format("{} ({}pid {} on {})", name(), label.empty() ? "" : label + ", ", pid, host);
}

Member& Membership::add(Member member, Time now) {
  member.incarnation = ++last_incarnation_;
  if (!member.owner) member.number = member.reader ? readers_joined_++ : workers_joined_++;
  member.last_seen = member.joined = now;
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

Member* Membership::find_token(uint64_t token) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const auto& m) { return token != 0 && m.second.token == token; });
  return found == members_.end() ? nullptr : &found->second;
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

size_t Membership::kept_from(const Member& joining) const {
  using Process = std::tuple<std::string_view, std::string_view, uint64_t>;
  const auto process = [](const Member& m) { return Process(m.host, m.boot_id, m.pid); };
  std::map<Process, uint32_t> to_come;  // each owner of a process announces fewer than the one before
  for (const auto& [incarnation, member] : members_)
    if (member.owner && process(member) != process(joining)) {
      const auto [known, added] = to_come.emplace(process(member), member.more);
      if (!added) known->second = std::min(known->second, member.more);
    }
  size_t sum = 0;
  for (const auto& [process, more] : to_come) sum += more;
  return sum;
}

size_t Membership::workers() const {
  return std::count_if(members_.begin(), members_.end(), [](const auto& m) { return m.second.worker(); });
}

size_t Membership::staying_workers() const {
  return std::count_if(members_.begin(), members_.end(),
                       [](const auto& m) { return m.second.worker() && !m.second.draining; });
}

size_t Membership::active_workers() const {
  return std::count_if(members_.begin(), members_.end(), [](const auto& m) { return is_active(m.second); });
}

// Incarnations grow as members join.
std::vector<Member*> Membership::active() {
  std::vector<Member*> found;
  for (auto& [incarnation, member] : members_)
    if (is_active(member)) found.push_back(&member);
  return found;
}

size_t Membership::owners() const {
  return std::count_if(members_.begin(), members_.end(), [](const auto& m) { return m.second.owner; });
}

}  // namespace embers
