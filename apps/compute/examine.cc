// embers-compute examine: what a worker on this host would tell the master when it joins, for embers doctor.
#include <nlohmann/json.hpp>

#include "actors/system_config.h"
#include "apps/compute/compute.h"
#include "apps/compute/job_setup.h"
#include "apps/process/joining.h"
#include "model/step.h"

namespace embers {

int examine(const JoinOptions& options) {
  const JobAccess access = find_job(options);
  SystemConfig system_config;
  caf::actor_system system(system_config);
  Transport transport(system, access.credentials);
  MasterLink master = reach_master(transport, access, options, wire::Role::ADMIN);
  transport.stop();
  const JobSetup setup = set_up(std::move(master.job),
                                master.evaluates ? Purpose::kEvaluate : Purpose::kTrain, master.index_dir);
  fmt::print("{}\n", nlohmann::json{{"settings", agreed_settings(setup)},
                                    {"numeric", numeric_settings(setup.job.training.threads)}}
                         .dump());
  return 0;
}

}  // namespace embers
