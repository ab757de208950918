#pragma once

#include <cstdint>
#include <vector>

#include "actors/owner/owner.h"
#include "job/job.h"

namespace embers {

// The configuration of owner `number` of a job's run, whichever process it lives in.
OwnerConfig owner_config(const job::Job& job, uint64_t run, uint32_t number, std::vector<TableSpec> tables,
                         OwnerMap map);

}  // namespace embers
