#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/message_types.h"
#include "base/files/disk.h"
#include "base/floats/float_buffer.h"
#include "master/evaluator.h"
#include "master/report.h"
#include "master/state/events/job_config.h"
#include "storage/external/key_value_server.h"

namespace embers {

// How the job ended.
struct JobResult {
  std::optional<Error> error;
  Report report;
};

// Everything a master needs to know, constant after its start. What it needs of the model came from a
// function wired in apps/: the master never sees libtorch.
struct MasterConfig : JobConfig {
  std::string predictions;                            // of kEvaluate: file for each record's score, or ""
  uint64_t run = 0;                                   // random number of this run, never 0
  std::shared_ptr<const FloatBuffer> dense, buffers;  // first values of dense_chunks()

  std::vector<OwnerHandles> local_owners;    // owners in this process, numbers 0, 1, ...; they need not join
  std::vector<std::string> local_endpoints;  // where workers of other processes reach a local owner
  std::string boot_id;                       // of this host, see wire::JoinRequest
  // Proxies of an owner process that joined with these endpoints; `who` names it in messages.
  std::function<OwnerHandles(const std::string& who, const std::vector<std::string>& endpoints,
                             const std::string& boot_id, uint64_t incarnation)>
      connect_owner;
  // Ends such proxies: what they were asked is answered with an error. Null for none.
  std::function<void(const OwnerHandles& owner)> drop_owner;

  std::string index_dir;              // passed on to workers
  storage::ServerLogin server_login;  // of the job's servers, passed on to owners and workers
  Disk* disk = &host_disk();          // of checkpoints

  std::function<EvaluatorActor(caf::actor_system&)> spawn_evaluator = embers::spawn_evaluator;
  std::function<void(const Progress&)> on_progress;       // every second, in the master's thread
  std::function<void(const std::string& line)> on_event;  // joins, losses, saves: for people
  std::function<void(JobResult)> on_end;                  // once
};

using stop_atom = caf::atom_constant<caf::atom("stop")>;

// The master as its own process sees it: (stop, why) saves and ends the job.
using LocalMasterActor = MasterActor::extend<caf::reacts_to<stop_atom, std::string>>;

// Spawns the master of a job. It admits owners and workers, leases minibatches, commits versions, evaluates,
// saves, and ends the job; it is never on the data path of rows.
//
//   gathering ──► preparing ──► training ──► settling ──► evaluating ──► scoring ──► saving
//       │                        │  ▲  ▲                                               │ │
//       │                 commit └──┘  └────────────── the next epoch ─────────────────┘ │
//       └─ stopped ──► ending ◄─────────── the last epoch, or stopped ───────────────────┘
//                         └──► closing ──► over ◄── failed ◄── any phase before ending
//
//   training ◄──► checkpointing   somebody wants a checkpoint: nothing is begun until it is written
//   preparing ──► evaluating   to evaluate only, or no epoch is left
//   preparing ──► saving       no epoch is left and there is no test set, or stopped
//   settling ──► saving        there is no test set, or stopped
//   evaluating ──► saving      stopped
//
// A job fails when it loses an owner for which it cannot wait, or when a worker reports an error. While
// members gather, it waits for another owner, unless a worker was let in, or waits in the same process. In
// preparing, settling, scoring and saving the job waits for an answer: of a helper that reads or writes
// files, of owners that say what they have applied, of whoever computes the metrics. In closing, owners are
// told to end; in failed, everybody is told why.
//
// A lost owner that has a journal stops only the leases, in any phase from training to saving:
//
//   paused ── a shard process joins, recovers, is at the job's version, all owners have the new map ──► on
//      └───── none for storage.owner_timeout ──► failed
LocalMasterActor spawn_master(caf::actor_system& system, std::shared_ptr<const MasterConfig> config);

}  // namespace embers
