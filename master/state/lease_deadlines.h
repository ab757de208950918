#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace embers {

// How long a worker may take over a minibatch before others may compute it, too. A worker computes what it
// holds one after another, so the work on a minibatch begins when the worker was given it, or finished the
// one before it, whichever is later: a lease that waits in a pipeline or a loader has not begun. Plain state,
// owned by the master; moments come from the caller.
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

  void granted(uint64_t worker, uint64_t minibatches, Time now);
  // It finished one of them (`computed`), or gave it back.
  void finished(uint64_t worker, bool computed, Time now);
  // It left or was lost, or its minibatches are no longer its own.
  void forget(uint64_t worker) { working_.erase(worker); }
  // Nobody is late for what happened while the job was held up, as by an owner that was away.
  void grant_time(Time now);

  Duration limit() const;
  // Workers whose work has taken longer than limit(), and how long it has taken.
  struct Late {
    uint64_t worker;
    Duration taken;
  };
  std::vector<Late> late(Time now) const;

 private:
  struct Working {
    uint64_t held = 0;
    Time since;  // the begin of the minibatch that it is computing
  };

  const Duration setting_;
  std::map<uint64_t, Working> working_;  // that hold something
  std::deque<Duration> recent_;          // of minibatches that are done
};

}  // namespace embers
