// embers shard: a process that joins a job as one owner, or as several. Each owner is on its own: a place in
// the owner map, a link to the master, a listening server, an io thread, an optimizer and a shard actor. They
// have nothing in common but the actor system's threads, and that they end together.
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "actors/ask.h"
#include "actors/owner/owner.h"
#include "actors/probe/probe.h"
#include "actors/transport/local_address.h"
#include "actors/transport/server.h"
#include "apps/process/joining.h"
#include "apps/process/open_files.h"
#include "apps/process/outcome.h"
#include "apps/process/owner_config.h"
#include "apps/process/runtime.h"
#include "apps/shard/owner_life.h"
#include "apps/shard/shard.h"
#include "base/cpus.h"
#include "base/random_number.h"
#include "storage/memory/page_filler.h"

namespace embers {
namespace {

// How the job ended for this process: what the first of its owners heard from the master, or that it lost the
// master. Any thread.
using Verdict = Outcome<std::optional<Error>>;

// Where an owner listens unless told otherwise: a free port at the address that reaches the master, and a
// Unix socket without a file, which nobody would remove after a SIGKILL.
std::vector<Endpoint> default_endpoints(const std::vector<Endpoint>& master) {
  const std::string name = fmt::format("@embers-{}-{:016x}", ::getpid(), random_number());
  std::vector<Endpoint> endpoints{{true, name, ""}};
  // Where the master is reached by other hosts, too, so may be this owner.
  auto tcp =
      std::find_if(master.begin(), master.end(), [](const Endpoint& e) { return !is_on_this_host(e); });
  if (tcp == master.end())
    tcp = std::find_if(master.begin(), master.end(), [](const Endpoint& e) { return !e.unix_socket; });
  if (tcp != master.end()) endpoints.push_back({false, local_address_towards(tcp->host, tcp->port), "0"});
  return endpoints;
}

Message<wire::JoinRequest> owner_join_request(const std::vector<Endpoint>& reached_at, uint32_t more) {
  return make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
    b.setRole(wire::Role::OWNER);
    b.setHost(host_name());
    b.setPid(static_cast<uint64_t>(::getpid()));
    b.setBootId(boot_id());
    b.setMore(more);
    b.setToken(random_number());
    b.setLabel(label_from_environment());
    const auto endpoints = texts(reached_at);
    write_texts(b.initEndpoints(endpoints.size()), endpoints);
  });
}

OwnerConfig read_owner_config(const MasterLink& master, wire::JoinReply::Reader reply) {
  std::vector<TableSpec> tables;
  for (const auto table : reply.getTables()) tables.push_back(read(table));
  OwnerConfig config = owner_config(master.job, master.run, reply.getNumber(), std::move(tables),
                                    read_owner_map(reply, UINT16_MAX));
  config.takes_over = reply.getTakesOver();
  config.login = {reply.getServerUser(), reply.getServerPassword()};
  return config;
}

// One owner of this process.
class JoinedOwner {
 public:
  // Reaches the master and listens.
  JoinedOwner(caf::actor_system& system, const ShardOptions& options, const JobAccess& access,
              std::shared_ptr<Flow> flow, std::shared_ptr<storage::PageFiller> page_filler)
      : transport_(system, access.credentials), access_(access), page_filler_(std::move(page_filler)) {
    transport_.share(std::move(flow));
    master_ = reach_master(transport_, access, options.join, wire::Role::OWNER);
    const std::vector<Endpoint> master = access.find_master();
    const auto endpoints =
        options.listen.empty() ? default_endpoints(master) : parse_endpoints(options.listen);
    Server::Options serving;
    serving.ports = parse_port_range(options.reached.port_range);
    serving.job = master_.run;
    serving.silence = connection_silence(master_.job);
    serving.newcomers = places_for_newcomers();
    server_ = Server::listen(transport_, endpoints, serving);
    reached_at_ = advertised(server_->endpoints(), parse_advertise(options.reached.advertise), master);
  }

  // Takes its place in the job and serves; `more` owners of this process come after it.
  void join(uint32_t more, std::optional<int> cpu, const std::shared_ptr<Verdict>& verdict) {
    caf::scoped_actor self{transport_.system()};
    const auto joined = ask(self.ptr(), master_.actor, owner_join_request(reached_at_, more));
    const uint64_t incarnation = joined.get().getIncarnation();
    OwnerConfig config = decoding(Kind::kJoinReply, [&] { return read_owner_config(master_, joined.get()); });
    config.cpu = cpu;
    config.page_filler = page_filler_;
    config.on_end = [verdict](bool ok, const std::string& message) {
      verdict->give(ok ? std::nullopt : std::optional<Error>(Error(ErrorCode::kJobFailed, message)));
    };
    // Before the owner, which may have to read a long journal.
    life_ = spawn_owner_life(transport_.system(), master_.actor, incarnation, access_.master, config.activity,
                             [verdict](std::optional<Error> why) { verdict->give(std::move(why)); });
    const OwnerHandles owner = make_owner(config, incarnation);
    server_->serve<OptimizerInterface>(Destination::kOptimizer, owner.optimizer);
    server_->serve<ShardInterface>(Destination::kShard, owner.shard);
    server_->serve<ProbeInterface>(
        Destination::kProbe,
        spawn_probe(transport_, {fmt::format("shard {}", config.number), {}, {}, nullptr},
                    {master_.run, incarnation, wire::Role::OWNER}));
    server_->start();
    spdlog::info("shard {} of job '{}', {}, listening on {}{}", config.number, master_.job.job.name,
                 access_.master, fmt::join(texts(server_->endpoints()), " "),
                 reached_at_ == server_->endpoints()
                     ? ""
                     : fmt::format(", reached at {}", fmt::join(texts(reached_at_), " ")));
  }

  void ask_to_stop() const { caf::anon_send(life_, end_job_atom::value); }

  // Sends what is still to be sent, and ends all connections.
  void leave() {
    server_->stop();
    transport_.stop();
  }

 private:
  // The master hears why it cannot be made. A server that has lost the owner's rows ends the job; otherwise
  // another process may be able to take the place.
  OwnerHandles make_owner(const OwnerConfig& config, uint64_t incarnation) {
    try {
      return spawn_owner(transport_.system(), config);
    } catch (const Error& e) {
      try {
        if (config.takes_over && remedy(e.code()) == Remedy::kGiveUp)
          tell_master<wire::FailRequest>([&](wire::FailRequest::Builder b) {
            b.setIncarnation(incarnation);
            b.setCode(static_cast<uint8_t>(e.code()));
            b.setMessage(e.what());
          });
        else
          tell_master<wire::LeaveRequest>([&](wire::LeaveRequest::Builder b) {
            b.setIncarnation(incarnation);
            b.setReason(e.what());
          });
      } catch (const Error&) {  // the master knows, or is gone
      }
      throw;
    }
  }
  template <class T, class Fill>
  void tell_master(Fill fill) {
    caf::scoped_actor self{transport_.system()};
    ask(self.ptr(), master_.actor, make_message<T>(fill));
  }

  Transport transport_;
  const JobAccess& access_;
  const std::shared_ptr<storage::PageFiller> page_filler_;
  MasterLink master_;
  std::shared_ptr<Server> server_;
  std::vector<Endpoint> reached_at_;
  OwnerLife life_;
};
using JoinedOwners = std::vector<std::unique_ptr<JoinedOwner>>;

// Several owners can only be given a port that stands for any free one.
void check_listen(const ShardOptions& options) {
  parse_port_range(options.reached.port_range);
  const Advertise advertise = parse_advertise(options.reached.advertise);
  if (options.owners == 1) return;
  if (!advertise.port.empty())
    fail(
        ErrorCode::kInvalid,
        "--advertise {} has one port, but --owners is {}: leave the port out, or start one process per owner",
        options.reached.advertise, options.owners);
  for (const Endpoint& endpoint : parse_endpoints(options.listen))
    if (endpoint.unix_socket || endpoint.port != "0")
      fail(ErrorCode::kInvalid,
           "--listen {} is an address for one owner, but --owners is {}: give port 0 (a free port for each), "
           "leave out --listen, or start one process per owner",
           endpoint.text(), options.owners);
}

// Joins one owner after another, in the order of the CPUs. Returns when all have joined, or when it is known
// how the job ended.
void join_all(const JoinedOwners& owners, const std::vector<int>& cpus,
              const std::shared_ptr<Verdict>& verdict) {
  try {
    for (size_t i = 0; i < owners.size(); ++i)
      owners[i]->join(static_cast<uint32_t>(owners.size() - i - 1), cpu_of(cpus, i), verdict);
  } catch (const Error& e) {
    // Those that have joined may hear why the master is gone.
    if (remedy(e.code()) == Remedy::kRetry) verdict->comes_within(kOwnerVerdict);
    verdict->give(e);
  } catch (const std::exception& e) {
    verdict->give(Error(ErrorCode::kInternal, e.what()));
  }
}

// All at once: each may wait a moment for a peer that accepts nothing.
void leave_all(const JoinedOwners& owners) {
  std::vector<std::thread> threads;
  for (const auto& owner : owners) threads.emplace_back([&owner] { owner->leave(); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int serve_shard(const ShardOptions& options) {
  const std::vector<int> cpus = parse_pin(options.pin);
  check_listen(options);
  const JobAccess access = find_job(options.join);
  allow_open_files();  // every worker has connections to every owner
  SystemConfig system_config(options.owners);
  caf::actor_system system(system_config);
  const auto flow = std::make_shared<Flow>();
  const auto page_filler = std::make_shared<storage::PageFiller>();
  JoinedOwners owners;
  for (uint32_t i = 0; i < options.owners; ++i)
    owners.push_back(std::make_unique<JoinedOwner>(system, options, access, flow, page_filler));
  const auto verdict = std::make_shared<Verdict>();
  join_all(owners, cpus, verdict);
  const SignalWatch watch([&](const std::string& signal) {
    spdlog::info("{}: asking the master to save and end the job", signal);
    owners[0]->ask_to_stop();
  });
  const std::optional<Error> error = verdict->wait();
  leave_all(owners);
  end_member(error);
}

}  // namespace embers
