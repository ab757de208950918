#include "client/joining/slurm.h"

#include <cstdlib>

namespace embers {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::optional<SlurmJob> slurm_job() {
  const SlurmJob job{variable("SLURM_JOB_ID"), variable("SLURMD_NODENAME"), variable("SLURM_SUBMIT_DIR")};
  if (job.id.empty() || job.submitted.empty()) return std::nullopt;
  return job;
}

}  // namespace embers
