// Owners that are lost and come back: see master.h.
#include <algorithm>

#include "master/master_state.h"

namespace embers {

// Whether a new process of this owner could go on where the lost one was cut off, and the job can wait for
// it.
bool MasterState::waits_for(uint32_t number) const {
  const bool pauses = phase == Phase::kTraining || phase == Phase::kEvaluating || phase == Phase::kSaving;
  return pauses && keeps_journal(*config) && config->job.storage.owner_timeout > 0 &&
         number >= config->local_owners.size();
}

// Loses the process that holds the owner's place, or the one that is about to take it.
void MasterState::lose_owner(uint32_t number, const std::string& why) {
  if (over_or_failed()) return;
  const auto known = away.find(number);
  if (known != away.end() && !known->second.joined) return;  // already known
  const Member* const member = members.find_owner(number);
  const std::string lost = fmt::format(
      "lost {}: {}", member != nullptr ? member->describe() : fmt::format("shard {}", number), why);
  if (!waits_for(number)) return fail_job(Error(ErrorCode::kLost, lost));
  if (member != nullptr) members.remove(member->incarnation);
  std::erase_if(owner_links, [&](const auto& link) { return link.second == number; });
  std::optional<OwnerHandles> handles;
  if (known != away.end())
    handles = std::exchange(known->second.joined, std::nullopt);
  else if (auto owner = owners.extract(number))
    handles = owner.mapped();
  if (handles && config->drop_owner) config->drop_owner(*handles);  // one that hangs answers nothing
  paused = true;
  const double wait = config->job.storage.owner_timeout;
  const auto timeout = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait));
  const Away& now = away.try_emplace(number, Away{lost, Clock::now() + timeout, std::nullopt}).first->second;
  const std::chrono::duration<double> left = now.deadline - Clock::now();
  event(fmt::format("{}; waiting {:.0f} s for its next process (start embers shard again where it ran)", lost,
                    std::max(left.count(), 0.0)));
}

// The lost owner that waits for a process to take its place.
std::optional<uint32_t> MasterState::free_place() const {
  for (const auto& [number, owner] : away)
    if (!owner.joined) return number;
  return std::nullopt;
}

// Questions to it wait in the connection until it has finished what its journal holds.
void MasterState::take_over(Member& member) {
  const uint32_t number = member.number;
  const OwnerHandles owner = connect_owner(member);
  away.at(number).joined = owner;
  ++map_version;
  const auto is_current = [this, number, owner] {
    const auto known = away.find(number);
    return known != away.end() && known->second.joined && known->second.joined->optimizer == owner.optimizer;
  };
  self->request(owner.optimizer, caf::infinite, make_message<wire::StatsRequest>())
      .then(
          [this, number, owner, is_current](const Message<wire::StatsReply>& reply) {
            if (is_current()) check_return(number, owner, reply.get().getVersion());
          },
          [this, number, is_current](caf::error& e) {
            const Error why = from_caf(e);
            if (is_current()) is_gone(why) ? lose_owner(number, why.what()) : fail_job(why);
          });
}

// It must be at the job's version, or have finished the commit that is under way.
void MasterState::check_return(uint32_t number, const OwnerHandles& owner, uint64_t version) {
  if (over_or_failed()) return;
  if (sync() && version != window.version() && !(committing && version == window.version() + 1))
    return fail_job(Error(
        ErrorCode::kLost,
        fmt::format(
            "{}; its next process found version {} in its journal, the job is at version {}: go on from "
            "the last checkpoint (--resume)",
            away.at(number).lost, version, window.version())));
  away.erase(number);
  owners[number] = owner;
  event(fmt::format("{} took the place of the lost one, at version {}",
                    members.find_owner(number)->describe(), version));
  for (const auto& [id, ask] : questions[number]) ask();
  if (!away.empty()) return;
  const uint32_t map = map_version;
  ask_owners<wire::MapRequest>(
      make_message<wire::MapRequest>([&](wire::MapRequest::Builder b) { b.setMapVersion(map); }),
      [this, map](const auto&) {
        if (away.empty() && map == map_version) go_on();
      });
}

void MasterState::go_on() {
  paused = false;
  answer_owners(Clock::time_point::max());
  answer_joins();
  if (std::exchange(save_again, false)) save_or_go_on();
  serve_leases();
  after_progress();
}

// A worker may lose its connection to an owner before the master loses its own, or when the master does not
// lose it at all: then the worker is told a moment later where the owners are.
void MasterState::owners_for(wire::OwnersRequest::Reader request, Promise<wire::OwnersReply> promise) {
  if (error) {
    told.insert(request.getIncarnation());
    throw Error(ErrorCode::kJobFailed, error->what());
  }
  if (!members.find(request.getIncarnation()))
    fail(ErrorCode::kFenced, "the master has given up on this worker: start a new one");
  const bool is_behind = request.getMapVersion() < map_version;
  waiting_owners.push_back(
      {request.getIncarnation(), promise, is_behind ? Clock::time_point::min() : Clock::now()});
  answer_owners(Clock::time_point::min());
}

void MasterState::answer_owners(Clock::time_point asked_before) {
  if (paused) return;
  std::erase_if(waiting_owners, [&](WaitingOwners& w) {
    if (w.since > asked_before) return false;
    w.promise.deliver(owners_reply());
    return true;
  });
}

void MasterState::check_away() {
  if (over_or_failed()) return;
  for (const auto& [number, owner] : away)
    if (!owner.joined && Clock::now() > owner.deadline)
      return fail_job(Error(
          ErrorCode::kLost,
          fmt::format("{}; no process took its place within {} s (storage.owner_timeout): go on from the "
                      "last checkpoint (--resume)",
                      owner.lost, config->job.storage.owner_timeout)));
  answer_owners(Clock::now() - std::chrono::duration_cast<Clock::duration>(beat));
  if (save_again && !paused) {
    save_again = false;
    save_or_go_on();
  }
}

}  // namespace embers
