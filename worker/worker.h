#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/message_types.h"
#include "base/errors.h"
#include "data/dataset.h"
#include "model/step.h"

namespace embers {

// Everything a worker needs to know, constant after its start.
struct WorkerConfig {
  job::Job job;
  uint64_t run = 0;         // number of the run, from the master's answer to JobRequest
  MasterActor master;       // local, or a proxy
  std::string master_name;  // for messages: its address, or "the master"
  std::string host, boot_id;
  std::shared_ptr<ModelRunner> runner;
  std::shared_ptr<const data::Dataset> train, test;
  std::vector<std::string> settings;  // as MasterConfig's
  // Handles of an owner that listens at these endpoints on a host with this boot id; `number` is its shard
  // id.
  std::function<OwnerHandles(size_t number, const std::vector<std::string>& endpoints,
                             const std::string& boot_id, uint64_t incarnation)>
      connect_owner;
  // Ends such handles: what they were asked is answered with an error. Null for none.
  std::function<void(const OwnerHandles& owner)> drop_owner;
  std::function<void(std::optional<Error>)>
      on_end;  // once; without an error when the job is done or stop was asked
};

using leave_atom = caf::atom_constant<caf::atom("leave")>;

// The worker as its own process sees it: (leave) finishes what is under way and goes.
using WorkerActor = caf::typed_actor<caf::reacts_to<leave_atom>>;

// Spawns a worker: joins the master, then keeps a pipeline of stages busy with leased minibatches, at most 1
// + prefetch of them at a time, and one more that is read:
//
//   lease ──► read, dedupe ──► (credit) ──► pull ──► train ──► push ──► done ──► (credit back)
//
// When an owner moved to another process, what is in the pipeline is given back to the master, and a new
// pipeline begins with the owners' new places.
WorkerActor spawn_worker(caf::actor_system& system, std::shared_ptr<const WorkerConfig> config);

}  // namespace embers
