#pragma once

#include <memory>
#include <vector>

#include "client/pipeline/pull.h"
#include "client/pipeline/row_cache.h"

namespace embers {

// The caches of a worker, one for each embedding table, between a plan and its pull: rows
// that were pulled for one of the worker's last `staleness` training minibatches are used again, the others
// are asked for and kept. Evaluated minibatches pull all rows and leave the caches alone. Owned by the
// puller.
class RowCaches {
 public:
  // `rows` of each table.
  RowCaches(const Owners& owners, size_t rows, uint64_t staleness);

  // Begins a training minibatch: copies the rows that the caches have to their places in the plan, and leaves
  // the others in its lists. Counts hits, and notes versions in plan.oldest. `plan` is not routed yet.
  void take(Work& work, PullPlan& plan);

  // Keeps the rows that an owner's answer put in their places in the plan.
  void keep(const PullPlan& plan, size_t owner, uint64_t version);

 private:
  std::vector<std::unique_ptr<RowCache>> tables_;  // by TableId; null for reserved and split tables
  std::vector<uint32_t> dims_;                     // by TableId
  uint64_t step_ = 0;                              // training minibatches begun
};

}  // namespace embers
