#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/door/secret.h"
#include "bench/control/job.h"

namespace embers {

// Owners that keep no rows: each listens at an address of its own, with the transport and the messages of
// real ones, and says to its master what workers have said to be done.
class SimulatedOwners {
 public:
  SimulatedOwners(size_t count, uint64_t run, const ControlJob& job);
  ~SimulatedOwners();

  const std::vector<std::string>& addresses() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace embers
