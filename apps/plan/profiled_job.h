#pragma once

#include <memory>
#include <span>
#include <vector>

#include "apps/plan/workload.h"

namespace embers::plan {

// A job on this host: its master and its shards are processes of their own, which talk over TCP as between
// hosts, and the worker is this process. It pulls rows of some tables and pushes gradients for them, one
// minibatch at a time, and computes nothing. Its processes end with it.
class ProfiledJob {
 public:
  // Settings of `job` that matter: see Workload. Each table has its own partition, token or encoding.
  // kInternal with what a process printed, if one ends.
  ProfiledJob(const job::Job& job, std::vector<TableSpec> tables, uint32_t shards);
  ~ProfiledJob();
  ProfiledJob(const ProfiledJob&) = delete;
  ProfiledJob& operator=(const ProfiledJob&) = delete;

  // Keys of one table in one minibatch; unique.
  struct Part {
    size_t table;
    KeysView keys;
  };
  using Minibatch = std::vector<Part>;

  // Of one step, the mean over a block of them: from the rows of a minibatch being there to those of the next
  // one; bytes between the worker and all shards.
  struct Step {
    double seconds = 0;
    double sent = 0, received = 0;
  };
  // Takes `steps` steps over these minibatches, in turn, after one that is not counted.
  Step run(std::span<const Minibatch> minibatches, size_t steps);

  // The rows that the last minibatch of the last block was given, all its parts one after another: of so many
  // steps of all blocks with these tables.
  const std::vector<float>& last_rows() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace embers::plan
