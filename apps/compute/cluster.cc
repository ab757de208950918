#include "apps/compute/cluster.h"

#include <unistd.h>

#include "apps/process/outcome.h"
#include "apps/process/owner_config.h"
#include "apps/process/runtime.h"
#include "base/cpus.h"
#include "storage/memory/page_filler.h"

namespace embers {
namespace {

std::shared_ptr<WorkerConfig> worker_config(const JobSetup& setup, const MasterConfig& config,
                                            const MasterActor& master, bool first) {
  auto w = std::make_shared<WorkerConfig>();
  w->job = config.job;  // with the servers that it uses
  w->run = config.run;
  w->master = master;
  w->master_name = "the master";
  w->host = host_name();
  w->boot_id = config.boot_id;
  w->runner = first ? setup.runner : ModelRunner::make(setup.job);
  w->train = setup.train;
  w->test = setup.test;
  w->settings = config.settings;
  w->connect_owner = [owners = config.local_owners](size_t number, const auto&, const auto&, uint64_t) {
    return owners.at(number);
  };
  // A worker of this process does not come back, so the error that ended it ends the job. (An error that the
  // master itself sent is already known there.)
  w->on_end = [master](const std::optional<Error>& error) {
    if (!error || error->code() == ErrorCode::kJobFailed) return;
    caf::anon_send(master, make_message<wire::FailRequest>([&](wire::FailRequest::Builder b) {
                     b.setCode(static_cast<uint8_t>(error->code()));
                     b.setMessage(error->what());
                   }));
  };
  return w;
}

}  // namespace

JobResult run_in_process(const JobSetup& setup, std::shared_ptr<MasterConfig> config, Console& console,
                         const std::vector<int>& cpus) {
  SystemConfig system_config(config->shards);
  caf::actor_system system(system_config);
  const OwnerMap map = even_owner_map(config->shards, config->job.storage.buckets);
  const auto page_filler = std::make_shared<storage::PageFiller>();
  for (uint32_t s = 0; s < config->shards; ++s) {
    OwnerConfig owner = owner_config(config->job, config->run, s, config->model.tables, map);
    owner.login = config->server_login;
    owner.cpu = cpu_of(cpus, s);
    owner.page_filler = page_filler;
    config->local_owners.push_back(spawn_owner(system, owner));
  }
  Outcome<JobResult> ended;
  show_on(console, *config);
  config->on_end = [&](JobResult result) { ended.give(std::move(result)); };
  std::vector<std::shared_ptr<WorkerConfig>> workers(config->workers);
  const LocalMasterActor master = spawn_master(system, config);
  const SignalWatch watch(
      [&](const std::string& signal) { caf::anon_send(master, stop_atom::value, signal); });
  for (size_t w = 0; w < workers.size(); ++w) {
    workers[w] = worker_config(setup, *config, caf::actor_cast<MasterActor>(master), w == 0);
    spawn_worker(system, workers[w]);
  }
  JobResult result = ended.wait();
  console.finish();
  for (const OwnerHandles& owner : config->local_owners) end_owner(owner);
  config->local_owners.clear();
  return result;
}

}  // namespace embers
