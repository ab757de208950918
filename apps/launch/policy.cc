#include "apps/launch/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace embers::launch {

std::string Member::label() const {
  switch (kind) {
    case Kind::kMaster:
      return "master";
    case Kind::kShard:
      return fmt::format("s{}", number);
    case Kind::kWorker:
      return fmt::format("w{}", number);
  }
  return "";
}

uint32_t Policy::Group::count(State state) const {
  return static_cast<uint32_t>(std::count_if(places.begin(), places.end(),
                                             [&](const auto& entry) { return entry.second.state == state; }));
}

Seconds Policy::delay(uint32_t restarts) {
  return std::min(kLongestDelay, std::ldexp(kFirstDelay, static_cast<int>(std::min(restarts, 16u))));
}

// --- what happened -----------------------------------------------------------------------------

void Policy::note_joined(Group& group, Seconds asked) {
  for (auto& [number, place] : group.places) {
    const auto joined = view_.members.find(Member{group.kind, number}.label());
    // The process before had the same label; it joined before this one was started.
    if (joined == view_.members.end() || joined->second.since > asked - place.started) continue;
    place.joined = true;
    place.useful |= joined->second.useful;
  }
}

// By the next answer of the master, which is not part of view_ yet.
void Policy::note_lost(const Group& group, const JobView& next) {
  if (next.ending) return;
  for (const auto& [number, place] : group.places) {
    const Member member{group.kind, number, place.restarts};
    if (place.state == State::kRunning && place.joined && view_.disconnected.contains(member.label()) &&
        !next.known.contains(member.label()))
      lost_.push_back(member);
  }
}

void Policy::on_view(const JobView& view, Seconds asked) {
  // Whoever asks for more workers wants another attempt.
  if (view.workers_wanted > wanted_workers())
    for (auto& [number, place] : workers_.places)
      if (place.state != State::kRunning) place = Place();
  note_lost(shards_, view);
  note_lost(workers_, view);
  view_ = view;
  asked_ = asked;
  note_joined(shards_, asked);
  note_joined(workers_, asked);
}

void Policy::on_end(const Member& member, const Ending& ending, Seconds now) {
  if (member.kind == Kind::kMaster) {
    master_ended_ = true;
    return;
  }
  const bool worker = member.kind == Kind::kWorker;
  Place& place = (worker ? workers_ : shards_).places[member.number];
  if (worker) worker_left_ = now;
  if (place.useful && view_.begun) place.restarts = 0;
  place.ended = now;
  place.ending = ending;
  if (worker && ending.status == 0 && place.useful)
    place = Place();
  else if (holds_rows(member) && place.joined && !options_.shards_return && view_.begun)
    place.state = State::kGivenUp;
  else
    place.state = State::kWaiting;
}

// --- what to do --------------------------------------------------------------------------------

bool Policy::may_start() const {
  return master_listens_ && !master_ended_ && !stopping_ && !view_.ending && !hopeless_;
}

uint32_t Policy::missing_workers() const {
  const uint32_t there =
      view_.other_workers + workers_.count(State::kRunning) + workers_.count(State::kGivenUp);
  return wanted_workers() - std::min(wanted_workers(), there);
}

void Policy::start(Group& group, uint32_t number, Seconds now, Members& members) {
  Place& place = group.places[number];
  place.state = State::kRunning;
  place.joined = place.useful = false;
  place.started = now;
  members.push_back({group.kind, number, place.restarts});
}

bool Policy::start_again(Group& group, uint32_t number, Seconds now, Members& members) {
  Place& place = group.places[number];
  if (now < place.ended + delay(place.restarts) || !has_heard_since(place.ended)) return false;
  if (place.restarts < options_.max_restarts) {
    ++place.restarts;
    start(group, number, now, members);
  } else {
    place.state = State::kGivenUp;
    given_up_.push_back({{group.kind, number, place.restarts}, place.ending, place.restarts + 1});
    last_given_up_ = given_up_.back();
  }
  return true;
}

void Policy::start_shards(Seconds now, Members& members) {
  for (uint32_t number = 0; number < options_.shards && members.size() < kAtOnce; ++number) {
    const State state = shards_.places[number].state;
    if (state == State::kFree) start(shards_, number, now, members);
    if (state != State::kWaiting || !view_.misses_shards || !start_again(shards_, number, now, members))
      continue;
    if (shards_.places[number].state == State::kGivenUp) hopeless_ = last_given_up_;
  }
}

void Policy::start_workers(Seconds now, Members& members) {
  if (worker_left_ >= 0 && !has_heard_since(worker_left_)) return;
  uint32_t missing = missing_workers();
  // Places that wait keep theirs, and so do those that are given up on now.
  std::vector<uint32_t> waiting;
  for (const auto& [number, place] : workers_.places)
    if (place.state == State::kWaiting) waiting.push_back(number);
  if (waiting.size() > missing) waiting.resize(missing);
  missing -= static_cast<uint32_t>(waiting.size());
  for (const uint32_t number : waiting)
    if (members.size() < kAtOnce) start_again(workers_, number, now, members);
  for (uint32_t number = 0; missing > 0 && members.size() < kAtOnce; ++number) {
    if (workers_.places[number].state != State::kFree) continue;
    start(workers_, number, now, members);
    --missing;
  }
  const bool nobody_works = workers_.count(State::kRunning) + view_.other_workers + missing_workers() == 0;
  const bool rows_are_missing = options_.owners > 0 && view_.misses_shards;
  if (workers_.count(State::kGivenUp) > 0 && (nobody_works || !view_.begun || rows_are_missing))
    hopeless_ = last_given_up_;
}

std::vector<Member> Policy::due(Seconds now) {
  Members members;
  if (!std::exchange(master_started_, true)) members.push_back({Kind::kMaster});
  if (!may_start()) return members;
  start_shards(now, members);
  if (!hopeless_) start_workers(now, members);
  return members;
}

std::vector<Member> Policy::take_lost() { return std::exchange(lost_, {}); }

std::vector<Policy::GivenUp> Policy::take_given_up() { return std::exchange(given_up_, {}); }

}  // namespace embers::launch
