#include "apps/launch/slurm/places.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/errors.h"

namespace embers::launch {

SlurmPlaces::SlurmPlaces(std::vector<Node> nodes, uint32_t worker_cores) : worker_cores_(worker_cores) {
  for (Node& node : nodes) places_.push_back({std::move(node.name), node.cores});
}

SlurmPlaces::Place* SlurmPlaces::choose(const Member& member) {
  if (member.kind == Kind::kMaster) return places_.data();
  if (const auto home = homes_.find(member.label()); home != homes_.end() && !places_[home->second].lost)
    return &places_[home->second];
  // Where most cores are free. But first shards fill up nodes on which a worker would leave cores over
  // anyway.
  const auto rank = [&](const Place& p) {
    const bool rest = member.kind == Kind::kShard && p.free > 0 && p.free % worker_cores_ != 0;
    const bool fits = p.free >= int64_t{cores_of(member)};
    return std::tuple(fits && !p.avoided, rest, p.free, -p.members);
  };
  Place* best = nullptr;
  for (Place& place : places_)
    if (!place.lost && (best == nullptr || rank(place) > rank(*best))) best = &place;
  const bool fits = best != nullptr && (member.kind == Kind::kShard || best->free >= int64_t{worker_cores_});
  return fits ? best : nullptr;
}

std::optional<std::string> SlurmPlaces::take(const Member& member) {
  Place* const place = choose(member);
  if (place == nullptr) return std::nullopt;
  place->free -= cores_of(member);
  ++place->members;
  taken_[member.label()] = static_cast<size_t>(place - places_.data());
  if (member.kind == Kind::kShard) homes_[member.label()] = taken_[member.label()];
  return place->name;
}

void SlurmPlaces::give_back(const Member& member) {
  const auto taken = taken_.find(member.label());
  if (taken == taken_.end()) return;
  places_[taken->second].free += cores_of(member);
  --places_[taken->second].members;
  taken_.erase(taken);
}

void SlurmPlaces::avoid(const std::string& name) {
  for (Place& place : places_) place.avoided |= place.name == name;
}

void SlurmPlaces::keep_only(const std::vector<std::string>& names) {
  for (Place& place : places_) place.lost = std::find(names.begin(), names.end(), place.name) == names.end();
}

std::vector<uint32_t> parse_cpus_per_node(const std::string& text) {
  std::vector<uint32_t> cores;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    uint32_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value == 0 || value > 1'000'000)
      fail(ErrorCode::kInvalid, "SLURM_JOB_CPUS_PER_NODE={}: not what Slurm sets", text);
    at = rest;
    return value;
  };
  const auto take = [&](std::string_view what) {
    const bool there = std::string_view(at, static_cast<size_t>(end - at)).starts_with(what);
    if (there) at += what.size();
    return there;
  };
  do {
    const uint32_t of_each = number();
    uint32_t nodes = 1;
    if (take("(x")) {
      nodes = number();
      if (!take(")")) fail(ErrorCode::kInvalid, "SLURM_JOB_CPUS_PER_NODE={}: not what Slurm sets", text);
    }
    cores.insert(cores.end(), nodes, of_each);
  } while (take(","));
  if (at != end) fail(ErrorCode::kInvalid, "SLURM_JOB_CPUS_PER_NODE={}: not what Slurm sets", text);
  return cores;
}

uint32_t tasks_for(uint32_t shards, uint32_t workers, uint32_t worker_cores) {
  return workers + (1 + shards + worker_cores - 1) / worker_cores;
}

}  // namespace embers::launch
