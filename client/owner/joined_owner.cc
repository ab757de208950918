#include "client/owner/joined_owner.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "actors/ask.h"
#include "actors/transport/addresses/local_address.h"
#include "base/host.h"
#include "base/random_number.h"
#include "client/owner/owner_config.h"

namespace embers {
namespace {

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

}  // namespace

JoinedOwner::JoinedOwner(caf::actor_system& system, const OwnerOptions& options, const JobAccess& access,
                         std::shared_ptr<Flow> flow, std::shared_ptr<storage::PageFiller> page_filler)
    : transport_(system, access.credentials), access_(access), page_filler_(std::move(page_filler)) {
  transport_.share(std::move(flow));
  master_ = reach_master(transport_, access,
                         {.role = wire::Role::OWNER, .connect_timeout = options.connect_timeout});
  const std::vector<Endpoint> master = access.find_master();
  const auto endpoints = options.listen.empty() ? default_endpoints(master) : options.listen;
  Server::Options serving;
  serving.ports = options.ports;
  serving.job = master_.run;
  serving.silence = connection_silence(master_.job);
  serving.newcomers = options.newcomers;
  server_ = Server::listen(transport_, endpoints, serving);
  reached_at_ = advertised(server_->endpoints(), options.advertise, master);
}

void JoinedOwner::join(uint32_t more, std::optional<int> cpu, const Verdict& verdict, const Serves& serves) {
  caf::scoped_actor self{transport_.system()};
  const auto joined = ask(self.ptr(), master_.actor, owner_join_request(reached_at_, more));
  incarnation_ = joined.get().getIncarnation();
  OwnerConfig config = decoding(Kind::kJoinReply, [&] { return read_owner_config(master_, joined.get()); });
  config.cpu = cpu;
  config.page_filler = page_filler_;
  config.on_end = [verdict](bool ok, const std::string& message) {
    verdict(ok ? std::nullopt : std::optional<Error>(Error(ErrorCode::kJobFailed, message)));
  };
  // Before the owner, which may have to read a long journal.
  life_ = spawn_owner_life(transport_.system(), master_.actor, incarnation_, access_.master, config.activity,
                           verdict);
  server_->expect<OptimizerInterface>(Destination::kOptimizer);
  server_->expect<ShardInterface>(Destination::kShard);
  probe_ = spawn_probe(transport_, {fmt::format("shard {}", config.number), {}, {}, nullptr},
                       {master_.run, incarnation_, wire::Role::OWNER});
  server_->serve<ProbeInterface>(Destination::kProbe, probe_);
  // So do its peers, which give up on a connection that is not answered; what they ask waits.
  server_->start();
  owner_ = make_owner(config);
  if (serves) serves(config.number, owner_);
  server_->provide<OptimizerInterface>(Destination::kOptimizer, owner_.optimizer);
  server_->provide<ShardInterface>(Destination::kShard, owner_.shard);
  spdlog::info("shard {} of job '{}', {}, listening on {}{}", config.number, master_.job.job.name,
               access_.master, fmt::join(texts(server_->endpoints()), " "),
               reached_at_ == server_->endpoints()
                   ? ""
                   : fmt::format(", reached at {}", fmt::join(texts(reached_at_), " ")));
}

void JoinedOwner::ask_to_stop() const { caf::anon_send(life_, end_job_atom::value); }

void JoinedOwner::leave() {
  server_->stop();
  transport_.stop();
}

void JoinedOwner::end() {
  if (owner_.optimizer) end_owner(owner_);
  if (life_) caf::anon_send_exit(life_, caf::exit_reason::user_shutdown);
  if (probe_) caf::anon_send_exit(probe_, caf::exit_reason::user_shutdown);
}

template <class T, class Fill>
void JoinedOwner::tell_master(Fill fill) {
  caf::scoped_actor self{transport_.system()};
  ask(self.ptr(), master_.actor, make_message<T>(fill));
}

void JoinedOwner::tell_that_it_leaves(const std::string& why) {
  try {
    tell_master<wire::LeaveRequest>([&](wire::LeaveRequest::Builder b) {
      b.setIncarnation(incarnation_);
      b.setReason(why);
    });
  } catch (const Error&) {  // the master knows, or is gone
  }
}

// The master hears why it cannot be made. A server that has lost the owner's rows ends the job; otherwise
// another process may be able to take the place.
OwnerHandles JoinedOwner::make_owner(const OwnerConfig& config) {
  try {
    return spawn_owner(transport_.system(), config);
  } catch (const Error& e) {
    if (config.takes_over && remedy(e.code()) == Remedy::kGiveUp)
      tell_that_it_failed(e);
    else
      tell_that_it_leaves(e.what());
    throw;
  }
}

void JoinedOwner::tell_that_it_failed(const Error& why) {
  try {
    tell_master<wire::FailRequest>([&](wire::FailRequest::Builder b) {
      b.setIncarnation(incarnation_);
      b.setCode(static_cast<uint8_t>(why.code()));
      b.setMessage(why.what());
    });
  } catch (const Error&) {  // as above
  }
}

}  // namespace embers
