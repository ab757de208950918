#pragma once

#include <string>

#include "apps/plan/workload.h"

namespace embers::plan {

// The tables of a job whose model comes with its first worker, and the keys of some minibatches, from a JSON
// file (docs/commands.md, "embers plan"). Repeated keys are left out. kInvalid, naming the file and the
// place, for what it may not have.
Workload read_keys_file(job::Job job, const std::string& path);

}  // namespace embers::plan
