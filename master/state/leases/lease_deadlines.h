#pragma once

#include <absl/container/flat_hash_map.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "master/state/leases/leases.h"

namespace embers {

// How long a worker may take over a minibatch before others may compute it, too. A worker computes what it
// holds one after another, so the work on a minibatch begins when the worker was given it, or finished the
// one before it, whichever is later: a lease that waits in a pipeline or a loader has not begun. A worker
// with a window says itself when it begins. Plain state, owned by the master; moments come from the caller.
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
  // It wants to begin a minibatch that it holds, and waits for that; it does not become late meanwhile.
  void waits(uint64_t worker);
  // It begins the next minibatch that it holds. It is not late any more.
  void goes_on(uint64_t worker, Time now);
  // It finished a minibatch of a lease (`computed`), or gave it back. False, and nothing changes, if it does
  // not hold it.
  bool finished(uint64_t worker, uint64_t lease, uint64_t minibatch, bool computed, Time now);
  // Leases after `received` never reached it.
  void revoked(uint64_t worker, uint64_t received, Time now);
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

 private:
  struct Working {
    FewInOrder<std::pair<uint64_t, uint64_t>> held;  // lease, minibatch; the first one is being computed
    Time since;                                      // the begin of that
    bool late = false, waits = false;

    Late describe(uint64_t worker, Time now) const {
      return {worker, held.begin()->second, held.size(), now - since};
    }
  };

  Duration setting_;
  absl::flat_hash_map<uint64_t, Working> working_;  // that hold something
  std::deque<Duration> recent_;                     // of minibatches that are done
};

}  // namespace embers
