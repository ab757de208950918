#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actors/owner/owner.h"
#include "actors/probe/probe.h"
#include "actors/transport/server.h"
#include "apps/process/joining.h"
#include "apps/process/outcome.h"
#include "apps/shard/owner_life.h"
#include "storage/memory/page_filler.h"

namespace embers {

// How the job ended for this process: what the first of its owners heard from the master, or that it lost the
// master. Any thread.
using Verdict = Outcome<std::optional<Error>>;

// An owner of this process that joins a job over the network: a place in the owner map, a link to the master,
// a listening server, an io thread, an optimizer and a shard actor.
class JoinedOwner {
 public:
  // Reaches the master and listens. `access` must outlive it.
  JoinedOwner(caf::actor_system& system, const ShardOptions& options, const JobAccess& access,
              std::shared_ptr<Flow> flow, std::shared_ptr<storage::PageFiller> page_filler);

  // Takes its place in the job and serves; `more` owners of this process come after it. Waits for the master,
  // until leave() at the latest.
  void join(uint32_t more, std::optional<int> cpu, const std::shared_ptr<Verdict>& verdict);

  void ask_to_stop() const;

  // Sends what is still to be sent, and ends all connections.
  void leave();

  // Ends its actors, in a process that goes on. After leave().
  void end();

 private:
  OwnerHandles make_owner(const OwnerConfig& config, uint64_t incarnation);
  template <class T, class Fill>
  void tell_master(Fill fill);

  Transport transport_;
  const JobAccess& access_;
  const std::shared_ptr<storage::PageFiller> page_filler_;
  MasterLink master_;
  std::shared_ptr<Server> server_;
  std::vector<Endpoint> reached_at_;
  OwnerLife life_;
  OwnerHandles owner_;
  ProbeActor probe_;
};

}  // namespace embers
