#include "apps/compute/cluster.h"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "apps/process/outcome.h"
#include "apps/process/runtime.h"
#include "base/cpus.h"
#include "base/log/standard_error.h"
#include "client/owner/owner_config.h"
#include "storage/memory/page_filler.h"

namespace embers {
namespace {

constexpr auto kEnd = std::chrono::seconds(5);

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

// Actors that are done end at once. One in the middle of a minibatch may take a while, or for ever.
bool end_soon(caf::actor_system& system) {
  const auto deadline = std::chrono::steady_clock::now() + kEnd;
  while (system.registry().running() > 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

[[noreturn]] void conclude_and_end(const JobResult& result,
                                   const std::function<void(const JobResult&)>& conclude) {
  try {
    conclude(result);
  } catch (const Error& e) {
    say_error(e.what());
    end_process(exit_status(e.code()));
  }
  end_process(0);
}

JobResult run(const JobSetup& setup, std::shared_ptr<MasterConfig> config, Console& console,
              const std::vector<int>& cpus, const std::function<void(const JobResult&)>& conclude) {
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
  if (!end_soon(system)) conclude_and_end(result, conclude);
  return result;
}

}  // namespace

void run_in_process(const JobSetup& setup, std::shared_ptr<MasterConfig> config, Console& console,
                    const std::vector<int>& cpus, const std::function<void(const JobResult&)>& conclude) {
  conclude(run(setup, std::move(config), console, cpus, conclude));
}

}  // namespace embers
