#pragma once

#include <memory>
#include <string>

#include "bench/harness/latencies.h"

namespace embers {

// Asks an owner process, over a control connection as its master does, to fence a worker off, once a
// millisecond, one question at a time: how long an order takes while others keep the shard busy.
class ControlProbe {
 public:
  // Asks the owner that listens there (owner.h); begins at once.
  explicit ControlProbe(const std::string& address);
  ~ControlProbe();
  // Ends it; returns the latencies of its round trips.
  Latencies stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace embers
