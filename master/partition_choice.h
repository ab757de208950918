#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "schema/table_spec.h"

// What partition = "auto" chooses: a model of what a step costs, whose constants `embers plan` measured
// (docs/notes/partition.md). Pure.
namespace embers {

// What of a job the choice depends on.
struct JobScale {
  uint32_t owners = 1;
  uint64_t batch_size = 0;   // records of a minibatch; 0: not known
  uint32_t workers = 1;      // that train at the same time
  double network_gbits = 0;  // of each host's network card; 0: not known, or all are on one host
  size_t cores = 0;          // that this process may use, which stand for those of owners' hosts; 0: it looks
};

// Seconds. The defaults were measured with processes that share two cores, where shards hardly work at the
// same time: it matters little how even their load is.
struct StepCosts {
  double message = 45e-6;       // a request to a shard and its answer
  double worker_key = 80e-9;    // routing a key, sending it, telling where its row goes
  double shard_key = 100e-9;    // finding its row, twice
  double worker_byte = 0.9e-9;  // of rows and gradients
  double shard_byte = 0.1e-9;   // of those of the busiest shard, in addition
  double link_byte = 0;         // through a host's network card
  uint32_t workers = 1;         // pull and push at the same time through the shards' cards
};

// Those of such a job. Where each owner, a worker and the master have a core of their own, owners work at the
// same time, and the load of the busiest counts.
StepCosts step_costs(const JobScale& scale);

// A step: a worker pulls and pushes the rows of so many keys of one table. The busiest shard counts, since
// the others wait for it. Seconds.
double step_seconds(const TableSpec& table, Partition partition, double keys, uint32_t owners,
                    const StepCosts& costs = {});

// The share of the keys that the shard with most of them has, on average, when hashes spread them.
double busiest_share(double keys, uint32_t owners);

struct PartitionChoice {
  Partition partition = Partition::kToken;
  std::string why;  // "its 512 rows of 4096 columns ...": follows "because "
};

// For a table with partition "auto" that can be split either way. `batch_size` is that of the job; 0 if it is
// not known.
PartitionChoice choose_partition(const TableSpec& table, uint32_t owners, uint64_t batch_size,
                                 const StepCosts& costs = {});

}  // namespace embers
