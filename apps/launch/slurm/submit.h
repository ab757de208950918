#pragma once

#include <string>

#include "apps/launch/orders.h"

namespace embers::launch {

// deploy/slurm/embers.sbatch, as it was when this program was built.
extern const char kBatchScript[];

// The words that submit a job: a script that calls `embers launch` again, with the words that this process was
// called with. There it finds itself in an allocation, and starts the members as its steps.
Words submission(const Plan& plan, const std::string& script);

// Submits it; with --wait, waits until it has ended, showing its log. Returns the exit status. kInvalid when
// there is no sbatch, or it refuses the job, with its reason.
int submit(const Plan& plan);

}  // namespace embers::launch
