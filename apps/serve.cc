// embers master, shard and worker: one job in several processes.
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <future>
#include <optional>

#include "actors/ask.h"
#include "actors/remote_owner.h"
#include "actors/transport/client.h"
#include "actors/transport/server.h"
#include "apps/commands.h"
#include "apps/console.h"
#include "apps/job_setup.h"
#include "apps/own_server.h"
#include "apps/runtime.h"
#include "worker/worker.h"

namespace embers {
namespace {

using std::chrono::duration;

std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& texts) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : texts) endpoints.push_back(parse_endpoint(text));
  return endpoints;
}

std::vector<std::string> texts(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> out;
  for (const Endpoint& e : endpoints) out.push_back(e.text());
  return out;
}

// The master as this process reaches it, and what it says of the job.
struct MasterLink {
  MasterActor actor;
  uint64_t run = 0;
  data::Job job;
  std::string index_dir;
};

MasterLink reach_master(Transport& transport, const JoinOptions& options) {
  const auto link =
      Link::open(transport, {parse_endpoint(options.master)}, {}, duration<double>(options.connect_timeout));
  MasterLink master;
  master.actor = link->proxy<MasterInterface>(Destination::kMaster);
  caf::scoped_actor self{transport.system()};
  const auto reply = ask(self.ptr(), master.actor, make_message<wire::JobRequest>());
  decoding(Kind::kJobReply, [&] {
    const auto r = reply.get();
    data::JobText text{r.getPath(), r.getText(), read_texts(r.getOverrides())};
    text.overrides.insert(text.overrides.end(), options.set.begin(), options.set.end());
    master.run = r.getJob();
    master.index_dir = r.getIndexDir();
    master.job = data::parse_job(std::move(text));
  });
  return master;
}

// Ends a process that joined a job: with the error, or well.
[[noreturn]] void end_member(Transport& transport, const std::optional<Error>& error) {
  transport.stop();
  if (error) fmt::print(stderr, "embers: error: {}\n", error->what());
  end_process(error ? exit_status(error->code()) : 0);
}

}  // namespace

namespace {

// Where a server of the job's own listens: where the master does, for its shards to reach it.
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
  data::Job job = load_job(options.job, overrides);
  // Listens before it reads data and model: peers that come early wait instead of being turned away.
  const uint64_t run = random_number();
  const auto server = Server::listen(transport, parse_endpoints(options.listen), {run, true});
  const JobSetup setup = set_up(std::move(job), Purpose::kTrain, index_dir_of(options.job.output));
  const auto lock = lock_output(options.job);
  const auto config = master_config(setup, options.job);
  config->run = run;
  auto own_servers = provide_servers(*config, server_host(options.listen));
  for (const auto& own : own_servers) console.event(own->describe());
  config->connect_owner = [&](const std::vector<std::string>& endpoints, uint64_t incarnation) {
    return remote_owner(transport, endpoints, true, {run, wire::Channel::CONTROL, incarnation},
                        duration<double>(options.connect_timeout), true);
  };
  config->drop_owner = [](const OwnerHandles& owner) {
    drop_remote_owner(owner, "the master gave this shard process up");
  };
  if (!config->model.has_embeddings()) {
    config->local_owners.push_back(spawn_owner(system, owner_config(*config, 0)));
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
    console.event(fmt::format("job '{}' at {}: waiting for {} shard processes and {} workers",
                              config->job.job.name, e.text(), config->shards - config->local_owners.size(),
                              config->workers));
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

// --- shard ---------------------------------------------------------------------------------------

namespace {

// Where a shard listens unless told: a free port of the address that reaches the master, and a Unix socket
// without a file, which nobody would remove after a SIGKILL.
std::vector<Endpoint> default_endpoints(const Endpoint& master) {
  const std::string name = fmt::format("@embers-{}-{:016x}", ::getpid(), random_number());
  std::vector<Endpoint> endpoints{{true, name, ""}};
  if (!master.unix_socket) endpoints.push_back({false, local_address_towards(master.host, master.port), "0"});
  return endpoints;
}

Message<wire::JoinRequest> owner_join_request(const Server& server) {
  return make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
    b.setRole(wire::Role::OWNER);
    b.setHost(host_name());
    b.setPid(static_cast<uint64_t>(::getpid()));
    b.setBootId(boot_id());
    const auto endpoints = texts(server.endpoints());
    write_texts(b.initEndpoints(endpoints.size()), endpoints);
  });
}

using beat_atom = caf::atom_constant<caf::atom("beat")>;
using quit_atom = caf::atom_constant<caf::atom("quit")>;

// Keeps an owner process in its job: tells the master that it lives, and notices when the master does not.
using OwnerLife =
    caf::typed_actor<caf::reacts_to<beat_atom>, caf::reacts_to<quit_atom>, caf::reacts_to<stop_atom>>;

struct OwnerLifeState {
  OwnerLifeState() = default;  // no aggregate: see actors/README.md
  bool stop = false;
  std::chrono::duration<double> beat{0.25}, timeout{10};
  std::optional<Error> lost;
  static inline const char* name = "owner_life";
};

// The master's word on how the job ended may come a moment after its connection closes.
constexpr auto kVerdict = std::chrono::seconds(1);

OwnerLife::behavior_type owner_life(OwnerLife::stateful_pointer<OwnerLifeState> self, MasterActor master,
                                    uint64_t incarnation, const std::string& address,
                                    std::function<void(std::optional<Error>)> end) {
  const auto lost = [=](const Error& why) {
    if (self->state.lost) return;
    const bool silent = remedy(why.code()) == Remedy::kRetry;
    self->state.lost =
        silent ? Error(ErrorCode::kLost, fmt::format("lost the master at {}: {}", address, why.what())) : why;
    self->delayed_send(self, kVerdict, quit_atom::value);
  };
  self->monitor(master.address());
  self->set_down_handler([=](caf::down_msg& down) { lost(from_caf(down.reason)); });
  self->send(self, beat_atom::value);
  return {
      [=](beat_atom) {
        const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(self->state.timeout);
        self->request(master, wait,
                      make_message<wire::HeartbeatRequest>([&](wire::HeartbeatRequest::Builder b) {
                        b.setIncarnation(incarnation);
                        b.setStop(self->state.stop);
                      }))
            .then(
                [=](const Message<wire::HeartbeatReply>& m) {
                  self->state.beat = duration<double>(m.get().getInterval());
                  self->state.timeout = duration<double>(m.get().getTimeout());
                },
                [=](caf::error& e) { lost(from_caf(e)); });
        if (!self->state.lost)
          self->delayed_send(self, std::chrono::duration_cast<std::chrono::milliseconds>(self->state.beat),
                             beat_atom::value);
      },
      [=](quit_atom) { end(self->state.lost); },
      [=](stop_atom) {
        self->state.stop = true;
        self->send(self, beat_atom::value);
      },
  };
}

OwnerConfig read_owner_config(const MasterLink& master, wire::JoinReply::Reader reply) {
  OwnerConfig config;
  config.job = master.run;
  config.shard = reply.getNumber();
  config.seed = master.job.job.seed;
  config.sync = master.job.training.mode == data::Mode::kSync;
  config.staleness_modulation = master.job.training.staleness_modulation;
  config.skip_bad_gradients = master.job.training.skip_bad_gradients;
  for (const auto table : reply.getTables()) config.tables.push_back(read(table));
  config.map = read_shard_map(reply, UINT16_MAX);
  config.takes_over = reply.getTakesOver();
  set_storage(config, master.job);
  return config;
}

// The owner; what stands in its way for good, as rows that a server lost, ends the job.
OwnerHandles make_owner(caf::actor_system& system, const OwnerConfig& config, const MasterLink& master,
                        uint64_t incarnation) {
  try {
    return spawn_owner(system, config);
  } catch (const Error& e) {
    if (!config.takes_over || remedy(e.code()) != Remedy::kGiveUp) throw;
    caf::scoped_actor self{system};
    try {
      ask(self.ptr(), master.actor, make_message<wire::FailRequest>([&](wire::FailRequest::Builder b) {
            b.setIncarnation(incarnation);
            b.setCode(static_cast<uint8_t>(e.code()));
            b.setMessage(e.what());
          }));
    } catch (const Error&) {  // the master knows, or is gone
    }
    throw;
  }
}

}  // namespace

int serve_shard(const JoinOptions& options) {
  SystemConfig system_config;
  caf::actor_system system(system_config);
  Transport transport(system);
  const Endpoint master_endpoint = parse_endpoint(options.master);
  const MasterLink master = reach_master(transport, options);
  const auto endpoints =
      options.listen.empty() ? default_endpoints(master_endpoint) : parse_endpoints(options.listen);
  const auto server = Server::listen(transport, endpoints, {master.run, false});

  caf::scoped_actor self{system};
  const auto joined = ask(self.ptr(), master.actor, owner_join_request(*server));
  std::promise<std::optional<Error>> ended;
  auto once = std::make_shared<std::once_flag>();
  const auto end = [&ended, once](std::optional<Error> error) {
    std::call_once(*once, [&] { ended.set_value(std::move(error)); });
  };
  OwnerConfig config = decoding(Kind::kJoinReply, [&] { return read_owner_config(master, joined.get()); });
  config.on_end = [end](bool ok, const std::string& message) {
    end(ok ? std::nullopt : std::optional<Error>(Error(ErrorCode::kJobFailed, message)));
  };
  // Before the owner, which may have to read a long journal.
  const OwnerLife life = system.spawn(owner_life, master.actor, joined.get().getIncarnation(), options.master,
                                      std::function<void(std::optional<Error>)>(end));
  OwnerHandles owner;
  try {
    owner = make_owner(system, config, master, joined.get().getIncarnation());
  } catch (const Error& e) {
    server->stop();
    end_member(transport, e);
  }
  server->serve<OptimizerInterface>(Destination::kOptimizer, owner.optimizer);
  server->serve<ShardInterface>(Destination::kShard, owner.shard);
  server->start();
  spdlog::info("shard {} of job '{}', master {}, listening on {}", config.shard, master.job.job.name,
               options.master, fmt::join(texts(server->endpoints()), " "));
  const SignalWatch watch([&](const std::string& signal) {
    spdlog::info("{}: asking the master to save and end the job", signal);
    caf::anon_send(life, stop_atom::value);
  });
  const std::optional<Error> error = ended.get_future().get();
  server->stop();
  end_member(transport, error);
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
  config->run = master.run;
  config->master = master.actor;
  config->master_name = "the master at " + options.master;
  config->host = host_name();
  config->boot_id = boot_id();
  config->runner = setup.runner;
  config->train = setup.train;
  config->test = setup.test;
  config->settings = agreed_settings(setup);
  config->connect_owner = [&transport, run = master.run, here = boot_id(), timeout = options.connect_timeout](
                              size_t, const std::vector<std::string>& endpoints, const std::string& there,
                              uint64_t incarnation) {
    return remote_owner(transport, endpoints, !here.empty() && here == there,
                        {run, wire::Channel::BULK, incarnation}, duration<double>(timeout), false);
  };
  config->drop_owner = [](const OwnerHandles& owner) {
    drop_remote_owner(owner, "the shard has moved to another process");
  };
  std::promise<std::optional<Error>> ended;
  config->on_end = [&](std::optional<Error> error) { ended.set_value(std::move(error)); };
  const WorkerActor worker = spawn_worker(system, config);
  spdlog::info("worker of job '{}', master {}", setup.job.job.name, options.master);
  const SignalWatch watch([&](const std::string& signal) {
    spdlog::info("{}: finishing what is under way, then leaving", signal);
    caf::anon_send(worker, leave_atom::value);
  });
  const std::optional<Error> error = ended.get_future().get();
  end_member(transport, error);
}

}  // namespace embers
