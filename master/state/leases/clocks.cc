#include "master/state/leases/clocks.h"

namespace embers {

void Clocks::add(uint64_t worker) {
  const uint64_t clock = slowest();
  if (clocks_.try_emplace(worker, clock).second) ++at_[clock];
}

void Clocks::remove(uint64_t worker) {
  if (const auto found = clocks_.extract(worker)) leave(found.mapped());
}

void Clocks::advance(uint64_t worker) {
  const auto found = clocks_.find(worker);
  if (found == clocks_.end()) return;
  ++at_[found->second + 1];
  leave(found->second++);
}

void Clocks::leave(uint64_t clock) {
  const auto at = at_.find(clock);
  if (--at->second == 0) at_.erase(at);
}

uint64_t Clocks::room(uint64_t worker, uint64_t unfinished) const {
  const uint64_t next = clocks_.at(worker) + unfinished;
  const uint64_t last = slowest() + bound_;
  return next > last ? 0 : last - next + 1;
}

}  // namespace embers
