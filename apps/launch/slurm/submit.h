#pragma once

#include <string>

#include "apps/launch/members/orders.h"

namespace embers::launch {

// deploy/slurm/embers.sbatch, as it was when this program was built.
extern const char kBatchScript[];

// Whether embers launch submits the job to Slurm: unless it finds itself in an allocation, in which it starts
// the members as steps.
bool submits(const LaunchOptions& options);
// The job directory of a launcher in an allocation: as given, or as whoever submitted the job said.
std::string job_dir_in_slurm(const LaunchOptions& options);

// The words that submit a job: a script that calls `embers launch` again, with the words that this process
// was called with.
Words submission(const Plan& plan, const std::string& script);

// Submits it, or prints how (--dry-run). With --wait, waits until it has ended, and shows its log. Returns
// the exit status. kInvalid when there is no sbatch, or it refuses the job, with its reason.
int submit(Plan plan);

}  // namespace embers::launch
