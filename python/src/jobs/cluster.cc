#include "python/src/jobs/cluster.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "actors/routing/remote_owner.h"
#include "actors/system_config.h"
#include "actors/system_end.h"
#include "actors/transport/server.h"
#include "apps/process/joining.h"
#include "apps/process/outcome.h"
#include "base/files/directory_lock.h"
#include "base/random_number.h"
#include "client/owner/joined_owner.h"
#include "master/master.h"
#include "master/model_checks.h"
#include "master/report.h"
#include "python/src/calls/living.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/checkpoint/checkpoint_paths.h"

namespace embers::python {
namespace {

constexpr auto kConnect = std::chrono::seconds(20);
constexpr auto kLeave = std::chrono::seconds(5);  // for actors that end

std::shared_ptr<MasterConfig> config_of(const ClusterOptions& options) {
  const job::Job job = job::parse_job({"embers.local()", options.job, {}});
  if (job.storage.backend != "memory" && job.storage.servers.empty())
    fail(ErrorCode::kInvalid,
         "embers.local(): storage.backend = \"{}\" needs storage.servers here: such jobs start their own "
         "servers "
         "below embers launch only",
         job.storage.backend);
  auto config = config_without_model(job);
  config->output = options.output;
  config->resume = options.resume;
  if (!options.resume.empty())
    config->saved_model = signature(storage::CheckpointReader::open(options.resume)->model());
  if (!options.output.empty()) storage::check_checkpoint(storage::checkpoint_paths(options.output));
  return config;
}

}  // namespace

struct Cluster::Impl {
  explicit Impl(const ClusterOptions& options)
      : lock(options.output.empty() ? nullptr : DirectoryLock::take(options.output)),
        config(config_of(options)),
        system_config(config->shards),
        system(system_config),
        transport(system) {
    const std::string name = fmt::format("unix:@embers-local-{}-{:016x}", ::getpid(), random_number());
    Server::Options serving;
    serving.job = config->run;
    serving.accept_strangers = true;
    serving.silence = connection_silence(config->job);
    server = Server::listen(transport, {parse_endpoint(name)}, serving);
    address = name;
    config->connect_owner = [this, here = config->boot_id](const std::string& who,
                                                           const std::vector<std::string>& endpoints,
                                                           const std::string& there, uint64_t incarnation) {
      return remote_owner(transport, who, endpoints, here == there,
                          {config->run, incarnation, wire::Role::MASTER}, kConnect, true);
    };
    config->drop_owner = [](const OwnerHandles& owner) {
      drop_remote_owner(owner, "the master has given up on this shard");
    };
    config->on_event = [](const std::string& line) { spdlog::info("{}", line); };
    config->on_end = [this](JobResult result) { ended.give(std::move(result)); };
    master = spawn_master(system, config);
    server->serve<MasterInterface>(Destination::kMaster, caf::actor_cast<MasterActor>(master));
    server->start();
    JoinOptions join;
    join.master = name;
    access = find_job(join);
    const auto flow = std::make_shared<Flow>();
    const auto page_filler = std::make_shared<storage::PageFiller>();
    for (uint32_t i = 0; i < config->shards; ++i)
      owners.push_back(std::make_unique<JoinedOwner>(system, owner_options(join), access, flow, page_filler));
  }

  void stop() { caf::anon_send(master, stop_atom::value, std::string("the program has closed it")); }

  // The whole life of the job, in a thread of its own.
  void live() {
    const Verdict nothing = [](const std::optional<Error>&) {};  // the master says how the job ended
    try {
      for (size_t i = 0; i < owners.size(); ++i)
        owners[i]->join(static_cast<uint32_t>(owners.size() - i - 1), std::nullopt, nothing);
    } catch (const Error& e) {
      spdlog::info("a shard did not join: {}", e.what());
      stop();
    }
    const JobResult result = ended.wait();
    server->stop();
    server->dismiss(
        result.error ? Error(ErrorCode::kJobFailed, result.error->what())
                     : Error(ErrorCode::kEnded, fmt::format("the job '{}' has ended", config->job.job.name)));
    transport.stop();
    for (const auto& owner : owners) owner->leave();
    for (const auto& owner : owners) owner->end();
    have_ended = actors_end_within(system, kLeave);
    lock = nullptr;  // the next job may write there
    closed.give(result);
  }

  std::unique_ptr<const DirectoryLock> lock;  // of the output
  const std::shared_ptr<MasterConfig> config;
  SystemConfig system_config;
  caf::actor_system system;
  Transport transport;
  std::shared_ptr<Server> server;
  std::string address;
  JobAccess access;
  Outcome<JobResult> ended, closed;
  LocalMasterActor master;
  std::vector<std::unique_ptr<JoinedOwner>> owners;
  bool have_ended = false;  // its actors
};

Cluster::Cluster(const ClusterOptions& options) {
  const SystemVisit visit;
  impl_ = std::make_shared<Impl>(options);
  Living<Impl>::here().add(impl_);
  std::thread([impl = impl_] {
    impl->live();
    // The actor system would wait for an actor that has not ended.
    if (!impl->have_ended) new std::shared_ptr<Impl>(impl);
  }).detach();
}

Cluster::~Cluster() { stop(); }

bool Cluster::end_all(std::chrono::duration<double> time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  const auto impls = Living<Impl>::here().all();
  for (const auto& impl : impls) impl->stop();
  return std::all_of(impls.begin(), impls.end(), [&](const auto& impl) {
    return impl->closed.comes_within(deadline - std::chrono::steady_clock::now());
  });
}

const std::string& Cluster::address() const { return impl_->address; }
void Cluster::stop() { impl_->stop(); }
bool Cluster::wait_for_end(std::chrono::duration<double> time) { return impl_->closed.comes_within(time); }
std::optional<Error> Cluster::error() const { return impl_->closed.wait().error; }
std::string Cluster::report() const {
  return to_json(impl_->closed.wait().report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace embers::python
