#include "master/state/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

namespace embers {

namespace {

bool is_active(const Member& m) { return m.worker() && m.connected && !m.draining; }

using Process = std::tuple<std::string_view, std::string_view, uint64_t>;
Process process(const Member& m) { return {m.host, m.boot_id, m.pid}; }

}  // namespace

bool of_one_process(const Member& a, const Member& b) { return process(a) == process(b); }

const char* Member::role() const { return owner ? "shard" : reader ? "reader" : "worker"; }

std::string Member::name() const { return fmt::format("{} {}", role(), number); }

std::string Member::describe() const {
  return fmt::format("{} ({}pid {} on {})", name(), label.empty() ? "" : label + ", ", pid, host);
}

Membership::Membership(const Membership& other)
    : members_(other.members_),
      of_link_(other.of_link_),
      of_token_(other.of_token_),
      workers_(other.workers_),
      draining_(other.draining_),
      last_incarnation_(other.last_incarnation_),
      workers_joined_(other.workers_joined_),
      readers_joined_(other.readers_joined_) {
  for (auto& [incarnation, member] : members_) found_[incarnation] = &member;
}

Member& Membership::add(Member member, Time now) {
  member.incarnation = ++last_incarnation_;
  if (!member.owner) member.number = member.reader ? readers_joined_++ : workers_joined_++;
  member.last_seen = member.joined = now;
  workers_ += member.worker();
  of_link_[member.link].insert(member.incarnation);
  if (member.token != 0) of_token_[member.token] = member.incarnation;
  Member& added = members_[member.incarnation] = std::move(member);
  found_[added.incarnation] = &added;
  near_[added.incarnation % near_.size()] = {added.incarnation, &added};
  return added;
}

void Membership::remove(uint64_t incarnation) {
  const auto gone = members_.extract(incarnation);
  if (!gone) return;
  found_.erase(incarnation);
  if (Near& near = near_[incarnation % near_.size()]; near.incarnation == incarnation) near = {};
  const Member& member = gone.mapped();
  workers_ -= member.worker();
  draining_ -= member.draining;
  leave_link(member);
  of_token_.erase(member.token);
}

void Membership::move(Member& member, uint64_t link) {
  leave_link(member);
  member.link = link;
  of_link_[link].insert(member.incarnation);
}

void Membership::leave_link(const Member& member) {
  const auto of = of_link_.find(member.link);
  of->second.erase(member.incarnation);
  if (of->second.empty()) of_link_.erase(of);
}

Member* Membership::find(uint64_t incarnation) {
  return const_cast<Member*>(std::as_const(*this).find(incarnation));
}

const Member* Membership::find(uint64_t incarnation) const {
  const Near& near = near_[incarnation % near_.size()];
  if (near.incarnation == incarnation && near.member != nullptr) return near.member;
  const auto found = found_.find(incarnation);
  return found == found_.end() ? nullptr : found->second;
}

const Member* Membership::find_owner(uint32_t number) const {
  for (const auto& [incarnation, member] : members_)
    if (member.owner && member.number == number) return &member;
  return nullptr;
}

Member* Membership::find_token(uint64_t token) {
  const auto found = of_token_.find(token);
  return found == of_token_.end() ? nullptr : find(found->second);
}

std::vector<uint64_t> Membership::behind(uint64_t link) const {
  const auto found = of_link_.find(link);
  if (found == of_link_.end()) return {};
  return {found->second.begin(), found->second.end()};
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

void Membership::drain(Member& worker) {
  if (!std::exchange(worker.draining, true)) ++draining_;
}

bool Membership::has_active_worker() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& m) { return is_active(m.second); });
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
