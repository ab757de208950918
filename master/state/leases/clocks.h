#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace embers {

// Bounded staleness as stale synchronous parallel defines it (Ho et al., "More Effective Distributed ML via a
// Stale Synchronous Parallel Parameter Server", NIPS 2013): a worker's clock is the number of its minibatches
// that are finished, and its minibatch number c, from 0, may begin only once every worker that trains is at
// clock c - bound or later. So it reads all updates of everybody's minibatches before c - bound. Plain state
// of one epoch, owned by the master.
class Clocks {
 public:
  explicit Clocks(uint64_t bound = 0) : bound_(bound) {}

  // From now on the worker takes part, at the clock of the slowest; nothing changes if it already does.
  void add(uint64_t worker);
  // It left or was lost, and no longer holds others up.
  void remove(uint64_t worker);
  // It finished a minibatch.
  void advance(uint64_t worker);
  // How many minibatches it may begin now, besides those that it was given and has not finished.
  uint64_t room(uint64_t worker, uint64_t unfinished) const;
  uint64_t slowest() const { return at_.empty() ? 0 : at_.begin()->first; }

 private:
  void leave(uint64_t clock);

  uint64_t bound_;
  std::map<uint64_t, uint64_t> clocks_;  // by worker
  std::map<uint64_t, size_t> at_;        // how many workers are at each clock
};

}  // namespace embers
