// embers master and embers worker: a job in several processes; its owners are in apps/shard/.
#include <spdlog/spdlog.h>

#include <optional>

#include "actors/routing/remote_owner.h"
#include "actors/transport/job_dir.h"
#include "actors/transport/server.h"
#include "apps/compute/compute.h"
#include "apps/compute/console.h"
#include "apps/compute/evaluate.h"
#include "apps/compute/job_servers.h"
#include "apps/compute/job_setup.h"
#include "apps/process/joining.h"
#include "apps/process/outcome.h"
#include "apps/process/owner_config.h"
#include "apps/process/runtime.h"
#include "base/files/output_file.h"
#include "base/log/standard_error.h"
#include "base/random_number.h"
#include "worker/worker.h"

namespace embers {
namespace {

using std::chrono::duration;

// Where the job's own servers listen: at the address of the master that members on other hosts reach, if any
// can.
std::optional<std::string> server_host(const std::vector<std::string>& listen) {
  for (const Endpoint& endpoint : parse_endpoints(listen))
    if (!is_of_this_host(endpoint)) return endpoint.host;
  return std::nullopt;
}

// What members are told that are still there when the master goes.
Error farewell(const JobResult& result, const std::string& job) {
  if (result.error) return Error(ErrorCode::kJobFailed, result.error->what());
  return Error(ErrorCode::kEnded, fmt::format("the job '{}' has ended", job));
}

}  // namespace

// --- master --------------------------------------------------------------------------------------

int serve_master(const MasterOptions& given) {
  const MasterOptions options = with_place(given);
  std::vector<std::string> overrides;
  if (options.shards > 0) overrides.push_back(fmt::format("storage.shards={}", options.shards));
  if (options.workers > 0) overrides.push_back(fmt::format("training.workers={}", options.workers));
  Console console(standard_error());
  const bool evaluates = options.task != Task::kTrain;
  for (const std::string& files : use_test_files(options.data)) overrides.push_back(files);
  if (!options.out.empty()) check_file(options.out);
  job::Job job = load_job(options.job, overrides);
  std::optional<JobDir> job_dir;
  if (!options.access.job_dir.empty()) job_dir.emplace(options.access.job_dir);
  SystemConfig system_config;
  caf::actor_system system(system_config);
  Transport transport(system, credentials(options.access, [&] { return job_dir->secret(); }));
  // Listens before it reads data and model, so that peers that come early wait instead of being refused.
  const uint64_t run = random_number();
  Server::Options serving;
  serving.job = run;
  serving.accept_strangers = true;
  serving.silence = connection_silence(job);
  const auto server = Server::listen(transport, parse_endpoints(options.listen), serving);
  if (job_dir) job_dir->announce(server->endpoints());
  const JobSetup setup = set_up(std::move(job), evaluates ? Purpose::kEvaluate : Purpose::kTrain,
                                index_dir_of(options.job.output));
  const auto lock = lock_output(options.job);
  const auto config =
      evaluates ? evaluation_config(setup, options.job, options.out) : master_config(setup, options.job);
  config->run = run;
  auto own_servers = provide_servers(*config, server_host(options.listen));
  if (own_servers)
    for (const std::string& line : own_servers->describe()) console.event(line);
  config->connect_owner = [&](const std::vector<std::string>& endpoints, uint64_t incarnation) {
    return remote_owner(transport, endpoints, true, {run, incarnation, wire::Role::MASTER},
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
  Outcome<JobResult> ended;
  show_on(console, *config);
  config->on_end = [&](JobResult result) { ended.give(std::move(result)); };
  const LocalMasterActor master = spawn_master(system, config);
  server->serve<MasterInterface>(Destination::kMaster, caf::actor_cast<MasterActor>(master));
  server->start();
  std::optional<SignalWatch> watch(
      std::in_place, [&](const std::string& signal) { caf::anon_send(master, stop_atom::value, signal); });
  for (const Endpoint& e : server->endpoints())
    console.event(fmt::format("job '{}' at {}: waiting for {} and {}", config->job.job.name, e.text(),
                              counted(config->shards - config->local_owners.size(), "shard"),
                              counted(config->workers, "worker")));
  const JobResult result = ended.wait();
  console.finish();
  if (job_dir) job_dir->withdraw();
  server->stop();
  server->dismiss(farewell(result, config->job.job.name));
  transport.stop();
  for (const OwnerHandles& owner : config->local_owners) end_owner(owner);
  own_servers.reset();
  watch.reset();  // from now on a signal ends the process
  try {
    evaluates ? conclude_evaluation(result, options.job.report)
              : conclude(result, options.job.report, options.job.verbose);
  } catch (const Error& e) {
    say_error(e.what());
    end_process(exit_status(e.code()));
  }
  end_process(0);
}

// --- worker --------------------------------------------------------------------------------------

int serve_worker(const JoinOptions& options) {
  const JobAccess access = find_job(options);
  SystemConfig system_config;
  caf::actor_system system(system_config);
  Transport transport(system, access.credentials);
  MasterLink master = reach_master(transport, access, options, wire::Role::WORKER);
  JobSetup setup = set_up(std::move(master.job), master.evaluates ? Purpose::kEvaluate : Purpose::kTrain,
                          master.index_dir);
  auto config = std::make_shared<WorkerConfig>();
  config->job = setup.job;
  connect_over(transport, master, duration<double>(options.connect_timeout), *config);
  config->runner = setup.runner;
  config->train = setup.train;
  config->test = setup.test;
  config->settings = agreed_settings(setup);
  Outcome<std::optional<Error>> ended;
  config->on_end = [&](std::optional<Error> error) { ended.give(std::move(error)); };
  const WorkerActor worker = spawn_worker(system, config);
  spdlog::info("worker of job '{}', {}", setup.job.job.name, access.master);
  const SignalWatch watch([&](const std::string& signal) {
    spdlog::info("{}: finishing what is under way, then leaving", signal);
    caf::anon_send(worker, leave_atom::value);
  });
  const std::optional<Error> error = ended.wait();
  transport.stop();
  end_member(error);
}

}  // namespace embers
