#pragma once

#include <optional>
#include <string>

namespace embers {

// What Slurm says, in the environment, about the job that this process is part of.
struct SlurmJob {
  std::string id;
  std::string node;       // the name of this one; "" outside of the job's nodes, as in the shell of salloc
  std::string submitted;  // the directory where the job was submitted

  // The job's directory unless it is given another one: all steps know it, and a job that Slurm queues again
  // has the same.
  std::string job_dir() const { return submitted + "/embers-" + id; }
};
// Nothing outside of Slurm.
std::optional<SlurmJob> slurm_job();

}  // namespace embers
