#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "master/partition_choice.h"
#include "schema/table_spec.h"

namespace embers {

// Why the columns of this table cannot be spread over owners, for people: "optimizer 'group_ftrl' needs whole
// rows". "" if they can.
std::string why_whole_rows(const TableSpec& table);

// What a table with partition "auto" gets in a job with this many owners: kToken or kEncoding, and why.
// `batch_size` is that of the job; 0 if it is not known. `cores`: that this process may use, which stand for
// those of the owners' hosts; 0 looks.
PartitionChoice settle_partition(const TableSpec& table, uint32_t owners, uint64_t batch_size = 0,
                                 size_t cores = 0);

// Leaves no table with "auto". With one owner the strategies are the same, and the table has kToken.
// kInvalid, naming the table and the reason, where a table cannot have what the job says. Returns what was
// chosen for tables with "auto", a line each for the log: "table 'actions': encoding, because ...".
std::vector<std::string> settle_partitions(ModelSpec& model, uint32_t owners, uint64_t batch_size = 0,
                                           size_t cores = 0);

}  // namespace embers
