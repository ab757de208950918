// embers-compute examine: what a worker on this host would tell the master when it joins, for embers doctor.
#include <nlohmann/json.hpp>

#include "actors/system_config.h"
#include "apps/compute/compute.h"
#include "apps/compute/job_setup.h"
#include "apps/compute/python_program.h"
#include "apps/process/joining.h"
#include "model/step.h"

namespace embers {
namespace {

std::vector<std::string> numeric_settings_of_python(const job::Job& job) {
  std::string lines;
  if (const int status = run_python({"numeric", std::to_string(job.training.threads)}, lines))
    fail(status == 2 ? ErrorCode::kInvalid : ErrorCode::kInternal, "{} cannot run the model {} here",
         python_command({}).front(), job.model.python);
  return nlohmann::json::parse(lines);
}

}  // namespace

int examine(const JoinOptions& options) {
  const JobAccess access = find_job(options);
  SystemConfig system_config;
  caf::actor_system system(system_config);
  Transport transport(system, access.credentials);
  MasterLink master = reach_master(transport, access, options, wire::Role::ADMIN);
  transport.stop();
  if (master.job.from_worker) {
    fmt::print("{}\n", nlohmann::json{{"settings", job::settings(master.job.source)},
                                      {"numeric", numeric_settings(master.job.training.threads)}}
                           .dump());
    return 0;
  }
  const JobSetup setup = set_up(std::move(master.job),
                                master.evaluates ? Purpose::kEvaluate : Purpose::kTrain, master.index_dir);
  fmt::print("{}\n", nlohmann::json{{"settings", agreed_settings(setup)},
                                    {"numeric", setup.runner ? numeric_settings(setup.job.training.threads)
                                                             : numeric_settings_of_python(setup.job)}}
                         .dump());
  return 0;
}

}  // namespace embers
