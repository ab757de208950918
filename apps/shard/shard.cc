// embers shard: a process that joins a job as one owner, or as several. Each owner is on its own: a place in
// the owner map, a link to the master, a listening server, an io thread, an optimizer and a shard actor. They
// have nothing in common but the actor system's threads, and that they end together.
#include <spdlog/spdlog.h>

#include <thread>

#include "apps/process/joining.h"
#include "apps/process/open_files.h"
#include "apps/process/outcome.h"
#include "apps/process/runtime.h"
#include "apps/shard/shard.h"
#include "base/cpus.h"
#include "client/owner/joined_owner.h"

namespace embers {
namespace {

// How the job ended for this process.
using Ended = Outcome<std::optional<Error>>;
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
void join_all(const JoinedOwners& owners, const std::vector<int>& cpus, const std::shared_ptr<Ended>& ended) {
  const Verdict verdict = [ended](std::optional<Error> why) { ended->give(std::move(why)); };
  try {
    for (size_t i = 0; i < owners.size(); ++i)
      owners[i]->join(static_cast<uint32_t>(owners.size() - i - 1), cpu_of(cpus, i), verdict);
  } catch (const Error& e) {
    // Those that have joined may hear why the master is gone.
    if (remedy(e.code()) == Remedy::kRetry) ended->comes_within(kOwnerVerdict);
    ended->give(e);
  } catch (const std::exception& e) {
    ended->give(Error(ErrorCode::kInternal, e.what()));
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
  const OwnerOptions one = owner_options(options.join, options.listen, options.reached);
  JoinedOwners owners;
  for (uint32_t i = 0; i < options.owners; ++i)
    owners.push_back(std::make_unique<JoinedOwner>(system, one, access, flow, page_filler));
  const auto ended = std::make_shared<Ended>();
  join_all(owners, cpus, ended);
  const SignalWatch watch([&](const std::string& signal) {
    spdlog::info("{}: asking the master to save and end the job", signal);
    owners[0]->ask_to_stop();
  });
  const std::optional<Error> error = ended->wait();
  leave_all(owners);
  end_member(error);
}

}  // namespace embers
