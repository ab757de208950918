#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "job/job.h"
#include "schema/table_spec.h"

namespace embers::plan {

// What a worker pulls and pushes: a job's embedding tables, and the unique keys of some minibatches.
struct Workload {
  job::Job job;                         // its seed, mode, reduction and wire_dtype are used; for what "auto"
                                        // chooses, workers and network_gbits
  std::vector<TableSpec> tables;        // embedding tables, as the job has settled them
  std::vector<std::vector<Keys>> keys;  // [minibatch][table]
  uint64_t batch_size = 0;              // records of a minibatch; 0: unknown

  // Keys of a table in all minibatches.
  size_t all_keys(size_t table) const {
    size_t n = 0;
    for (const auto& minibatch : keys) n += minibatch[table].size();
    return n;
  }
};

}  // namespace embers::plan
