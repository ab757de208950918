// embers master and embers worker: a job in several processes; its owners are in apps/shard/.
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "actors/probe/probe.h"
#include "actors/routing/remote_owner.h"
#include "actors/transport/addresses/job_dir.h"
#include "actors/transport/server.h"
#include "apps/compute/compute.h"
#include "apps/compute/console.h"
#include "apps/compute/evaluate.h"
#include "apps/compute/job_servers.h"
#include "apps/compute/job_setup.h"
#include "apps/compute/python_program.h"
#include "apps/compute/rejoin.h"
#include "apps/process/joining.h"
#include "apps/process/open_files.h"
#include "apps/process/outcome.h"
#include "apps/process/runtime.h"
#include "base/files/output_file.h"
#include "base/log/standard_error.h"
#include "base/random_number.h"
#include "client/owner/owner_config.h"
#include "client/owner/replica_owner.h"
#include "master/model_checks.h"
#include "model/step.h"
#include "storage/checkpoint/checkpoint.h"
#include "worker/worker.h"

namespace embers {
namespace {

using std::chrono::duration;

// Where the job's own servers listen, and where members find them: as the master, if members on other hosts
// can reach it.
std::optional<ServerPlace> server_place(const MasterOptions& options,
                                        const std::vector<Endpoint>& advertised) {
  const auto beyond = [](const std::vector<Endpoint>& endpoints) {
    return std::find_if(endpoints.begin(), endpoints.end(),
                        [](const Endpoint& e) { return !is_of_this_host(e); });
  };
  const std::vector<Endpoint> listening = parse_endpoints(options.listen);
  const auto here = beyond(listening), there = beyond(advertised);
  if (here == listening.end()) return std::nullopt;
  return ServerPlace{here->host, there == advertised.end() ? host_name() : there->host,
                     parse_port_range(options.reached.port_range)};
}

// The latest owner of each shard, for whoever examines the network.
class OwnersSeen {
 public:
  void add(About::Place place) {
    const std::lock_guard lock(mutex_);
    latest_[place.name.substr(0, place.name.find(" ("))] = std::move(place);  // "shard 1"
  }
  std::vector<About::Place> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<About::Place> all;
    for (const auto& [shard, place] : latest_) all.push_back(place);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, About::Place> latest_;
};

std::string text_of(const std::vector<Endpoint>& endpoints) {
  return fmt::format("{}", fmt::join(texts(endpoints), " "));
}

// Everything about the job that is known when the master begins.
std::shared_ptr<MasterConfig> config_of(job::Job job, const MasterOptions& options) {
  const bool evaluates = options.task != Task::kTrain;
  if (job.from_worker && !evaluates) {
    auto config = config_without_model(job);
    set_files(*config, options.job);
    if (!config->resume.empty())
      config->saved_model = signature(storage::CheckpointReader::open(config->resume)->model());
    return config;
  }
  const JobSetup setup = set_up(std::move(job), evaluates ? Purpose::kEvaluate : Purpose::kTrain,
                                index_dir_of(options.job.output));
  return evaluates ? evaluation_config(setup, options.job, options.out) : master_config(setup, options.job);
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
  const Advertise advertise = parse_advertise(options.reached.advertise);
  std::optional<JobDir> job_dir;
  if (!options.access.job_dir.empty()) job_dir.emplace(options.access.job_dir);
  SystemConfig system_config;
  system_config.with_quick_actors();
  caf::actor_system system(system_config);
  Transport transport(system, credentials(options.access, [&] { return job_dir->secret(); }));
  // Listens before it reads data and model, so that peers that come early wait instead of being refused.
  const uint64_t run = random_number();
  Server::Options serving;
  serving.job = run;
  serving.accept_strangers = true;
  serving.silence = connection_silence(job);
  serving.newcomers = places_for_newcomers();
  serving.ports = parse_port_range(options.reached.port_range);
  const auto server = Server::listen(transport, parse_endpoints(options.listen), serving);
  const std::vector<Endpoint> reached_at = advertised(server->endpoints(), advertise);
  if (job_dir) job_dir->announce(reached_at);
  const auto config = config_of(std::move(job), options);
  const auto lock = lock_output(options.job);
  config->run = run;
  check_open_files(open_files_of_master(config->workers, config->shards),
                   fmt::format("the master of a job with {} and {}", counted(config->workers, "worker"),
                               counted(config->shards, "shard")));
  auto own_servers = provide_servers(*config, server_place(options, reached_at));
  if (own_servers)
    for (const std::string& line : own_servers->describe()) console.event(line);
  OwnersSeen owners_seen;
  config->connect_owner = [&, here = config->boot_id](const std::string& who,
                                                      const std::vector<std::string>& endpoints,
                                                      const std::string& there, uint64_t incarnation) {
    owners_seen.add({who, endpoints, there});
    return remote_owner(transport, who, endpoints, !here.empty() && here == there,
                        {run, incarnation, wire::Role::MASTER}, duration<double>(options.connect_timeout),
                        true);
  };
  config->drop_owner = [](const OwnerHandles& owner) {
    drop_remote_owner(owner, "the master has given up on this shard process");
  };
  if (!config->model.has_embeddings() && !config->job.model_from_worker()) {
    const OwnerMap map = even_owner_map(config->shards, config->job.storage.buckets);
    config->local_owners.push_back(
        spawn_owner(system, owner_config(config->job, config->run, 0, config->model.tables, map)));
    config->local_endpoints = texts(reached_at);
    server->serve<OptimizerInterface>(Destination::kOptimizer, config->local_owners[0].optimizer);
    server->serve<ShardInterface>(Destination::kShard, config->local_owners[0].shard);
  }
  Outcome<JobResult> ended;
  show_on(console, *config);
  config->on_end = [&](JobResult result) { ended.give(std::move(result)); };
  const LocalMasterActor master = spawn_master(system, config);
  const ProbeActor probe =
      spawn_probe(transport,
                  {"the master", config->settings,
                   config->job.model.python.empty() ? numeric_settings(config->job.training.threads)
                                                    : std::vector<std::string>(),
                   [&] { return owners_seen.all(); }},
                  {run, 0, wire::Role::MASTER});
  server->serve<ProbeInterface>(Destination::kProbe, probe);
  server->serve<MasterInterface>(Destination::kMaster, caf::actor_cast<MasterActor>(master));
  server->start();
  std::optional<SignalWatch> watch(
      std::in_place, [&](const std::string& signal) { caf::anon_send(master, stop_atom::value, signal); });
  for (const Endpoint& e : server->endpoints())
    console.event(fmt::format("job '{}' at {}: waiting for {} and {}", config->job.job.name, e.text(),
                              counted(config->shards - config->local_owners.size(), "shard"),
                              counted(config->workers, "worker")));
  if (reached_at != server->endpoints()) console.event("others reach it at " + text_of(reached_at));
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

namespace {

// The worker of this process is done, or has failed: others still need the rows that are here, and its
// process cannot begin anew. Returns how the job ended for the process.
std::optional<Error> stay(ReplicaOwner& owner, std::optional<Error> worker) {
  if (!owner.has_ended_by(std::chrono::steady_clock::now())) {
    if (worker) spdlog::warn("{}", worker->what());
    spdlog::info("the worker has left; the shard of this process stays until the job has ended");
  }
  std::optional<Error> end = owner.wait_for_end();
  owner.leave();
  return worker ? std::move(worker) : end;
}

}  // namespace

int serve_worker(const WorkerOptions& worker_options) {
  const JoinOptions& options = worker_options.join;
  const JobAccess access = find_job(options);
  SystemConfig system_config;
  caf::actor_system system(system_config);
  Transport transport(system, access.credentials);
  MasterLink master = reach_master(transport, access, options, wire::Role::WORKER);
  if (master.job.from_worker)
    fail(ErrorCode::kInvalid,
         "the model of the job '{}' comes with its first worker, a program that joins it; embers worker "
         "computes jobs with [model] and [data] only",
         master.job.job.name);
  if (!master.job.model.python.empty()) {
    transport.stop();
    become_python(worker_words(worker_options));
  }
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
  std::atomic<bool> has_finished = false, leaves = false;
  config->on_finished = [&] { has_finished = true; };
  config->on_end = [&](std::optional<Error> error) { ended.give(std::move(error)); };
  std::unique_ptr<ReplicaOwner> owner;
  if (worker_options.owner) {
    owner = std::make_unique<ReplicaOwner>(
        system, owner_options(options, worker_options.listen, worker_options.reached), access,
        [&](const Error& refused) { ended.give(refused); });
    owner->connect_directly(*config);
  }
  const WorkerActor worker = spawn_worker(system, config);
  spdlog::info("worker of job '{}', {}", setup.job.job.name, access.master);
  if (owner) owner->start();
  const SignalWatch watch([&](const std::string& signal) {
    if (owner) {
      spdlog::info("{}: asking the master to save and end the job, since a share of its rows is here",
                   signal);
      return owner->ask_to_stop();
    }
    spdlog::info("{}: finishing what is under way, then leaving", signal);
    leaves = true;
    caf::anon_send(worker, leave_atom::value);
  });
  std::optional<Error> error = ended.wait();
  transport.stop();
  if (owner) end_member(stay(*owner, error));
  if (error && !leaves && joins_again(*error, has_finished)) {
    spdlog::warn("{}", error->what());
    error = Error(ErrorCode::kLost, fmt::format("{}; it could not join again: {}", error->what(),
                                                join_again(options, master.run).what()));
  }
  end_member(error);
}

}  // namespace embers
