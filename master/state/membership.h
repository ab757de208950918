#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "master/state/progress/rate.h"

namespace embers {

// A process (or an actor of this process) that joined the job.
struct Member {
  uint64_t incarnation = 0;
  uint64_t token = 0;  // of its join; not 0: it can lose that connection and come back over another one
  std::chrono::steady_clock::time_point last_seen;

  // A worker. What each lease looks at stands here side by side: with thousands of workers it is in no cache.
  uint64_t done = 0;      // minibatches that it has finished
  uint64_t examples = 0;  // in these
  std::chrono::steady_clock::time_point last_done;
  uint64_t began_at = 0;  // if it holds work: what the job had finished when it began it
  uint32_t window = 0;    // leases that it may draw ahead; 0: it begins what it is leased when it comes
  bool away = false;      // it has a window, did not draw what was its to draw, and has not drawn since
  bool draining = false;  // it was told to finish what it holds, and to leave

  bool owner = false;
  bool reader = false;  // only looks rows up: is leased nothing, and nobody waits for it
  bool connected = true;
  uint32_t number = 0;  // in the owner map, or running number of the worker or reader
  uint32_t more = 0;    // owners of the same process that join after it
  uint64_t link = 0;    // its connection, which is watched
  std::string host;
  uint64_t pid = 0;
  std::vector<std::string> endpoints;  // owners
  std::string boot_id;
  std::string label;  // given by whoever started it, or ""
  std::chrono::steady_clock::time_point joined;
  uint64_t rows = 0, bytes = 0, waiting = 0;  // an owner, as it says itself
  Rate pulls, pushes;

  bool worker() const { return !owner && !reader; }
  const char* role() const;      // worker, shard, reader
  std::string name() const;      // "worker 2"
  std::string describe() const;  // "worker 2 (w1, pid 4711 on host)"; w1 is its label
};

bool of_one_process(const Member& a, const Member& b);

// Who is in the job. Plain state, owned by the master.
class Membership {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Membership() = default;
  Membership(Membership&&) = default;
  Membership& operator=(Membership&&) = default;
  Membership(const Membership& other);

  // Numbers a worker, and gives the member an incarnation that was never used before. Owners come with the
  // number of their place.
  Member& add(Member member, Time now);
  void remove(uint64_t incarnation);
  // It has another connection.
  void move(Member& member, uint64_t link);
  Member* find(uint64_t incarnation);
  const Member* find(uint64_t incarnation) const;
  const Member* find_owner(uint32_t number) const;
  // The one that joined with this token.
  Member* find_token(uint64_t token);
  // The incarnations of all members whose connection this is; one process may be several owners.
  std::vector<uint64_t> behind(uint64_t link) const;
  // Everybody counts as seen at this moment.
  void grant_time(Time now);
  // A member that has been silent since before `deadline`.
  const Member* silent_since(Time deadline) const;
  // Places that owners of other processes than the one of `joining` have not taken yet, though the first
  // owner of their process has joined.
  size_t kept_from(const Member& joining) const;
  size_t workers() const { return workers_; }
  size_t staying_workers() const { return workers_ - draining_; }  // not told to leave
  bool has_active_worker() const;
  size_t active_workers() const;  // of those that stay, the connected ones
  std::vector<Member*> active();  // the same, oldest first
  // It is told to leave.
  void drain(Member& worker);
  size_t owners() const;
  uint32_t workers_joined() const { return workers_joined_; }
  const std::map<uint64_t, Member>& all() const { return members_; }

 private:
  void leave_link(const Member& member);

  std::map<uint64_t, Member> members_;           // by incarnation
  std::unordered_map<uint64_t, Member*> found_;  // the same, to be found in one step
  // The same of some, in memory that stays in a cache: by incarnation, modulo its size.
  struct Near {
    uint64_t incarnation = 0;
    Member* member = nullptr;
  };
  std::vector<Near> near_ = std::vector<Near>(4096);
  std::map<uint64_t, std::set<uint64_t>> of_link_;   // their incarnations
  std::unordered_map<uint64_t, uint64_t> of_token_;  // their incarnations; of tokens other than 0
  size_t workers_ = 0, draining_ = 0;
  uint64_t last_incarnation_ = 0;
  uint32_t workers_joined_ = 0, readers_joined_ = 0;
};

}  // namespace embers
