#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schema/ids.h"

namespace embers::plan {

// Keys of one table in one minibatch; unique.
struct Part {
  size_t table;
  KeysView keys;
};
using Minibatch = std::vector<Part>;

// One step, the mean over a block of them: from the rows of a minibatch being there to those of the next one
// that this worker takes.
struct Step {
  double seconds = 0;
  double sent = 0, received = 0;  // bytes between the worker and all shards
  // The last minibatch of the block: its number in the job, and a hash of the rows that it was given, all its
  // parts one after another.
  uint64_t last = 0, rows = 0;
  // False once a minibatch of the job was taken twice or out of turn: from then on, rows may be those of
  // another version.
  bool in_order = true;
};

// A worker of a job that measures, wherever it is: pulls rows of some tables and pushes gradients for them,
// one minibatch at a time, and computes nothing. Which rows a minibatch has depends on its number in the job
// alone: that of number `first` + i has those of the ith of the list, over and over.
class Worker {
 public:
  // Steps that a worker takes before those that count: until then the others may not have begun.
  static constexpr size_t kFirstSteps = 2;

  virtual ~Worker() = default;
  // Begins to take kFirstSteps + `steps` minibatches, `steps` of them until the rows of the last are there.
  // The keys stay until finish().
  virtual void start(std::span<const Minibatch> minibatches, size_t steps, uint64_t first) = 0;
  // Waits for that.
  virtual Step finish() = 0;
};

}  // namespace embers::plan
