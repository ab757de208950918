#include "client/joining/describe_job.h"

#include "actors/system_config.h"
#include "client/joining/reach_master.h"

namespace embers {

JobDescription describe_job(const client::Options& options, const std::vector<std::string>& set) {
  const JobAccess access = find_job(location_of(options, "Options"));
  SystemConfig config;
  caf::actor_system system(config);
  Transport transport(system, access.credentials);
  MasterLink master = reach_master(
      transport, access,
      {.role = wire::Role::WORKER,
       .connect_timeout = options.connect_timeout,
       .set = set,
       .patience = caf::duration(std::chrono::ceil<std::chrono::milliseconds>(options.timeout))});
  transport.stop();
  master.actor = nullptr;  // the system waits for what is referred to
  job::JobText theirs = master.job.source;
  theirs.overrides.resize(theirs.overrides.size() - set.size());
  if (job::settings(theirs) != job::settings(master.job.source))
    fail(ErrorCode::kMismatch,
         "--set changes the job of {}: a worker may only be given other paths, threads and prefetch",
         access.master);
  return {std::move(master.job.source), std::move(master.index_dir), master.evaluates,
          std::move(master.version), master.run};
}

}  // namespace embers
