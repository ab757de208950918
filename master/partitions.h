#pragma once

#include <cstdint>
#include <string>

#include "schema/table_spec.h"

namespace embers {

// Why the columns of this table cannot be spread over owners, for people: "optimizer 'group_ftrl' needs whole
// rows". "" if they can.
std::string why_whole_rows(const TableSpec& table);

// What a table with partition "auto" gets in a job with this many owners: kToken or kEncoding.
// Not asked for tables that need whole rows.
Partition settle_partition(const TableSpec& table, uint32_t owners);

// Leaves no table with "auto". With one owner the strategies are the same, and the table has kToken.
// kInvalid, naming the table and the reason, where a table cannot have what the job says.
void settle_partitions(ModelSpec& model, uint32_t owners);

}  // namespace embers
