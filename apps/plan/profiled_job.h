#pragma once

#include <memory>
#include <span>
#include <vector>

#include "apps/plan/surroundings.h"
#include "apps/plan/worker.h"
#include "apps/plan/workload.h"

namespace embers::plan {

// A job whose workers compute nothing: its master and its shards are processes of their own. Its processes
// end with it.
class ProfiledJob {
 public:
  // Settings of `job` that matter: see Workload. Each table has its own partition, token or encoding.
  // kInternal with what a process printed, if one ends.
  ProfiledJob(const job::Job& job, const std::vector<TableSpec>& tables, uint32_t shards,
              const Surroundings& surroundings = {});
  ~ProfiledJob();
  ProfiledJob(const ProfiledJob&) = delete;
  ProfiledJob& operator=(const ProfiledJob&) = delete;

  // All workers take `steps` steps over these minibatches, in turn, after some that are not counted. Means
  // over workers; rows are those of the block's last minibatch, which in a sync job depend only on how many
  // steps of all blocks had these tables, as long as all minibatches are taken in order.
  Step run(std::span<const Minibatch> minibatches, size_t steps);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace embers::plan
