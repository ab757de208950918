#include "master/state/clocks.h"

#include <algorithm>

namespace embers {

void Clocks::advance(uint64_t worker) {
  if (const auto found = clocks_.find(worker); found != clocks_.end()) ++found->second;
}

uint64_t Clocks::room(uint64_t worker, uint64_t unfinished) const {
  const uint64_t next = clocks_.at(worker) + unfinished;
  const uint64_t last = slowest() + bound_;
  return next > last ? 0 : last - next + 1;
}

uint64_t Clocks::slowest() const {
  const auto slowest = std::min_element(clocks_.begin(), clocks_.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return slowest == clocks_.end() ? 0 : slowest->second;
}

}  // namespace embers
