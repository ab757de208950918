#pragma once

#include <absl/container/flat_hash_map.h>

#include <boost/container/flat_map.hpp>
#include <boost/container/small_vector.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "master/state/leases/leases.h"

namespace embers {

// How long a worker may take over a minibatch before others may compute it, too. A worker computes what it
// holds one after another, so the work on a minibatch begins when the worker was given it, or finished the
// one before it, whichever is later: a lease that waits in a pipeline or a loader has not begun. A worker
// with a window asks before it begins another, and may do so while it computes: then it has just come to the
// last one that it has begun. Plain state, owned by the master; moments come from the caller.
//
// The time is `setting` if that is not 0. Otherwise it is found out: kFirst until kKnown minibatches are
// done, since the first ones also warm caches and create rows, then kTimes the slowest of the last kRecent,
// but at least kLeast.
class LeaseDeadlines {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Duration = std::chrono::duration<double>;
  static constexpr size_t kKnown = 20, kRecent = 200;
  static constexpr double kTimes = 10;
  static constexpr Duration kFirst = std::chrono::minutes(10), kLeast = std::chrono::seconds(30);

  explicit LeaseDeadlines(Duration setting = Duration(0)) : setting_(setting) {}

  void granted(uint64_t worker, const LeaseBook::Lease& lease, Time now);
  // It asks to begin a minibatch that it holds. It is not late any more, and does not become so until it is
  // answered, unless it has begun another that it has not finished.
  void asks(uint64_t worker, Time now);
  // It may begin that minibatch, or (`begins` is false) is to look for another. If it is late, it stays so.
  void answered(uint64_t worker, uint64_t lease, uint64_t minibatch, bool begins, Time now);
  // It is out of reach, and asks for nothing any more. It is not late, but has its whole time anew.
  void disconnected(uint64_t worker, Time now);
  // It finished a minibatch of a lease (`computed`), or gave it back. False, and nothing changes, if it does
  // not hold it.
  bool finished(uint64_t worker, uint64_t lease, uint64_t minibatch, bool computed, Time now);
  // Leases after `received` never reached it.
  void revoked(uint64_t worker, uint64_t received);
  // It left or was lost.
  void forget(uint64_t worker) { working_.erase(worker); }
  // Nobody is late for what happened while the job was held up, as by an owner that was away.
  void grant_time(Time now);

  Duration limit() const;
  // After this time without anything finished, a job in which all workers are late is given up: twice the
  // limit, but when that was found out at least kFirst, since then nobody has said how long is too long.
  Duration end() const;

  // A worker whose work has taken longer than limit(), and how long it has taken. It stays late until it
  // finishes something.
  struct Late {
    uint64_t worker = 0;
    uint64_t minibatch = 0;  // that it is computing
    size_t held = 0;         // minibatches that it has not finished
    Duration taken{};
  };
  // Those who have become late since this was last asked; both in the order of workers.
  std::vector<Late> newly_late(Time now);
  std::vector<Late> late(Time now) const;
  bool is_late(uint64_t worker) const;
  bool holds(uint64_t worker) const { return working_.contains(worker); }  // anything
  bool has_begun(uint64_t worker) const;  // with a window: something that it holds

 private:
  struct Working {
    using Held = std::pair<uint64_t, uint64_t>;  // lease, minibatch
    using Begun = std::optional<Time>;           // when it said so; it may have computed another then
    using Room = boost::container::small_vector<std::pair<Held, Begun>, 2>;
    boost::container::flat_map<Held, Begun, std::less<Held>, Room> held;  // the first one is being computed
    Time from;   // the end of what it computed before
    Time since;  // what it has last said about its work
    bool late = false, asks = false;

    bool computes() const;  // it has begun something
    void restart(Time now) { from = since = now; }
    Late describe(uint64_t worker, Time now) const {
      return {worker, held.begin()->first.second, held.size(), now - since};
    }
  };

  Duration setting_;
  absl::flat_hash_map<uint64_t, Working> working_;  // that hold something
  std::deque<Duration> recent_;                     // of minibatches that are done
};

}  // namespace embers
