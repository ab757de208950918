// embers master and embers worker: a job in several processes; its owners are in apps/shard/.
#include <spdlog/spdlog.h>

#include <future>
#include <optional>

#include "actors/routing/remote_owner.h"
#include "actors/transport/server.h"
#include "apps/compute/compute.h"
#include "apps/compute/console.h"
#include "apps/compute/job_servers.h"
#include "apps/compute/job_setup.h"
#include "apps/process/joining.h"
#include "apps/process/owner_config.h"
#include "apps/process/runtime.h"
#include "worker/worker.h"

namespace embers {
namespace {

using std::chrono::duration;

// Where the job's own servers listen: at the master's address, since shards can reach that.
std::string server_host(const std::vector<std::string>& listen) {
  for (const Endpoint& endpoint : parse_endpoints(listen))
    if (!endpoint.unix_socket) return endpoint.host;
  return "127.0.0.1";
}

}  // namespace

// --- master --------------------------------------------------------------------------------------

int serve_master(const MasterOptions& options) {
  std::vector<std::string> overrides;
  if (options.shards > 0) overrides.push_back(fmt::format("storage.shards={}", options.shards));
  if (options.workers > 0) overrides.push_back(fmt::format("training.workers={}", options.workers));
  Console console;
  SystemConfig system_config;
  caf::actor_system system(system_config);
  Transport transport(system);
  job::Job job = load_job(options.job, overrides);
  // Listens before it reads data and model, so that peers that come early wait instead of being refused.
  const uint64_t run = random_number();
  const auto server = Server::listen(transport, parse_endpoints(options.listen), {run, true});
  const JobSetup setup = set_up(std::move(job), Purpose::kTrain, index_dir_of(options.job.output));
  const auto lock = lock_output(options.job);
  const auto config = master_config(setup, options.job);
  config->run = run;
  auto own_servers = provide_servers(*config, server_host(options.listen));
  for (const auto& own : own_servers) console.event(own->describe());
  config->connect_owner = [&](const std::vector<std::string>& endpoints, uint64_t incarnation) {
    return remote_owner(transport, endpoints, true, {run, incarnation},
                        duration<double>(options.connect_timeout), true);
  };
  config->drop_owner = [](const OwnerHandles& owner) {
    drop_remote_owner(owner, "the master has given up on this shard process");
  };
  if (!config->model.has_embeddings()) {
    const OwnerMap map = even_owner_map(config->shards, config->job.storage.buckets);
    config->local_owners.push_back(
        spawn_owner(system, owner_config(config->job, config->run, 0, config->model.tables, map)));
    config->local_endpoints = texts(server->endpoints());
    server->serve<OptimizerInterface>(Destination::kOptimizer, config->local_owners[0].optimizer);
    server->serve<ShardInterface>(Destination::kShard, config->local_owners[0].shard);
  }
  std::promise<JobResult> ended;
  show_on(console, *config);
  config->on_end = [&](JobResult result) { ended.set_value(std::move(result)); };
  const LocalMasterActor master = spawn_master(system, config);
  server->serve<MasterInterface>(Destination::kMaster, caf::actor_cast<MasterActor>(master));
  server->start();
  const SignalWatch watch(
      [&](const std::string& signal) { caf::anon_send(master, stop_atom::value, signal); });
  for (const Endpoint& e : server->endpoints())
    console.event(fmt::format("job '{}' at {}: waiting for {} shards and {} workers", config->job.job.name,
                              e.text(), config->shards - config->local_owners.size(), config->workers));
  const JobResult result = ended.get_future().get();
  console.finish();
  server->stop();
  transport.stop();
  for (const OwnerHandles& owner : config->local_owners) end_owner(owner);
  own_servers.clear();
  try {
    conclude(result, options.job.report);
  } catch (const Error& e) {
    fmt::print(stderr, "embers: error: {}\n", e.what());
    end_process(exit_status(e.code()));
  }
  end_process(0);
}

// --- worker --------------------------------------------------------------------------------------

int serve_worker(const JoinOptions& options) {
  SystemConfig system_config;
  caf::actor_system system(system_config);
  Transport transport(system);
  MasterLink master = reach_master(transport, options);
  JobSetup setup = set_up(std::move(master.job), Purpose::kTrain, master.index_dir);
  auto config = std::make_shared<WorkerConfig>();
  config->job = setup.job;
  connect_over(transport, master, options.master, duration<double>(options.connect_timeout), *config);
  config->runner = setup.runner;
  config->train = setup.train;
  config->test = setup.test;
  config->settings = agreed_settings(setup);
  std::promise<std::optional<Error>> ended;
  config->on_end = [&](std::optional<Error> error) { ended.set_value(std::move(error)); };
  const WorkerActor worker = spawn_worker(system, config);
  spdlog::info("worker of job '{}', master {}", setup.job.job.name, options.master);
  const SignalWatch watch([&](const std::string& signal) {
    spdlog::info("{}: finishing what is under way, then leaving", signal);
    caf::anon_send(worker, leave_atom::value);
  });
  const std::optional<Error> error = ended.get_future().get();
  transport.stop();
  end_member(error);
}

}  // namespace embers
