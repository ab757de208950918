#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "master/partition_choice.h"
#include "schema/table_spec.h"

namespace embers {

// Why the columns of this table cannot be spread over owners, for people: "optimizer 'group_ftrl' needs whole
// rows". "" if they can.
std::string why_whole_rows(const TableSpec& table);

// `batch_size`: that of the job's minibatches, which a job without data of its own is told by a worker.
JobScale scale_of(const job::Job& job, uint64_t batch_size);

// What a table with partition "auto" gets in such a job: kToken or kEncoding, and why.
PartitionChoice settle_partition(const TableSpec& table, const JobScale& scale);

// Leaves no table with "auto". With one owner the strategies are the same, and the table has kToken.
// kInvalid, naming the table and the reason, where a table cannot have what the job says. Returns what was
// chosen for tables with "auto", a line each for the log: "table 'actions': encoding, because ...".
std::vector<std::string> settle_partitions(ModelSpec& model, const JobScale& scale);

}  // namespace embers
