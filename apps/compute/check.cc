// embers check: everything that can be wrong before training, without training.
#include "apps/compute/compute.h"
#include "apps/compute/job_setup.h"

namespace embers {

int check(const JobOptions& options) {
  const JobSetup setup = set_up(load_job(options), Purpose::kTrain, "");
  for (const std::string& line : signature(setup.runner->spec())) fmt::print("{}\n", line);
  fmt::print("{}: ok; {} training records, {} test records\n", options.job, setup.train->records(),
             setup.test ? setup.test->records() : 0);
  return 0;
}

}  // namespace embers
