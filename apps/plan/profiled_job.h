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
  // over workers. `last` is the highest number, from the block's first, of what workers took last: that of
  // the block's last minibatch, unless one before it had to be taken again. Rows are that minibatch's, which
  // in a sync job depend only on its number and on how many steps of all blocks had these tables.
  Step run(std::span<const Minibatch> minibatches, size_t steps);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace embers::plan
