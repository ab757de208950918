#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/owner/owner.h"
#include "actors/probe/probe.h"
#include "actors/transport/server.h"
#include "client/joining/reach_master.h"
#include "client/owner/owner_life.h"
#include "storage/memory/page_filler.h"

namespace embers {

// Where others reach an owner, and how it reaches its master.
struct OwnerOptions {
  std::vector<Endpoint> listen = {};  // none: the address that reaches the master, and a Unix socket
  PortRange ports = {};
  Advertise advertise = {};
  std::chrono::duration<double> connect_timeout{20};
  size_t newcomers = 256;  // see Server::Options: a quarter of the files that a process may often have open
};

// How the job ended for this process, called by the first of its owners that heard it from the master, or
// lost the master. Any thread, and more than once.
using Verdict = std::function<void(std::optional<Error>)>;

// An owner of this process that joins a job over the network: a place in the owner map, a link to the master,
// a listening server, an io thread, an optimizer and a shard actor.
class JoinedOwner {
 public:
  // Reaches the master and listens. `access` must outlive it.
  JoinedOwner(caf::actor_system& system, const OwnerOptions& options, const JobAccess& access,
              std::shared_ptr<Flow> flow, std::shared_ptr<storage::PageFiller> page_filler);

  // An owner that others are about to reach: its number, and its actors.
  using Serves = std::function<void(uint32_t number, const OwnerHandles& owner)>;

  // Takes its place in the job and serves; `more` owners of this process come after it. Waits for the master,
  // until leave() at the latest. `serves` is called before others are answered.
  void join(uint32_t more, std::optional<int> cpu, const Verdict& verdict, const Serves& serves = {});

  // Where the master says that it is.
  const std::vector<Endpoint>& reached_at() const { return reached_at_; }

  // Once it has joined.
  void ask_to_stop() const;
  // The master is told that it goes, and why. Other members need it: unless the job has not begun, that ends
  // the job.
  void tell_that_it_leaves(const std::string& why);

  // Sends what is still to be sent, and ends all connections.
  void leave();

  // Ends its actors, in a process that goes on. After leave().
  void end();

 private:
  OwnerHandles make_owner(const OwnerConfig& config);
  void tell_that_it_failed(const Error& why);
  template <class T, class Fill>
  void tell_master(Fill fill);

  Transport transport_;
  const JobAccess& access_;
  const std::shared_ptr<storage::PageFiller> page_filler_;
  MasterLink master_;
  std::shared_ptr<Server> server_;
  std::vector<Endpoint> reached_at_;
  uint64_t incarnation_ = 0;
  OwnerLife life_;
  OwnerHandles owner_;
  ProbeActor probe_;
};

}  // namespace embers
