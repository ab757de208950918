#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/message_types.h"
#include "base/floats/float_buffer.h"
#include "job/job.h"
#include "master/evaluator.h"
#include "master/report.h"
#include "schema/table_spec.h"
#include "storage/external/key_value_server.h"

namespace embers {

// How the job ended.
struct JobResult {
  std::optional<Error> error;
  Report report;
};

// Everything a master needs to know, constant after its start. What it needs of the model came from a
// function wired in apps/: the master never sees libtorch.
struct MasterConfig {
  // kEvaluate: the checkpoint `resume` on the test set, read-only; rows are restored without slots.
  enum class Task : uint8_t { kTrain, kEvaluate };

  job::Job job;
  Task task = Task::kTrain;
  std::string predictions;  // of kEvaluate: file for the score of each record, or ""
  uint64_t run = 0;         // random number of this run, never 0
  ModelSpec model;
  std::shared_ptr<const FloatBuffer> dense, buffers;  // first values of dense_chunks()

  uint32_t workers = 1;                      // the job starts when this many have joined; more may join later
  uint32_t shards = 1;                       // and this many owners
  std::vector<OwnerHandles> local_owners;    // owners in this process, numbers 0, 1, ...; they need not join
  std::vector<std::string> local_endpoints;  // where workers of other processes reach a local owner
  std::string boot_id;                       // of this host, see wire::JoinRequest
  // Proxies of an owner process that joined with these endpoints.
  std::function<OwnerHandles(const std::vector<std::string>& endpoints, uint64_t incarnation)> connect_owner;
  // Ends such proxies: what they were asked is answered with an error. Null for none.
  std::function<void(const OwnerHandles& owner)> drop_owner;

  uint64_t train_minibatches = 0, train_records = 0;
  std::vector<std::string> train_signature;  // Dataset::signature() of the training data
  std::vector<std::string> settings;         // what a worker must agree with, besides the model
  uint64_t test_minibatches = 0;             // 0: no evaluation
  std::string index_dir;                     // passed on to workers
  storage::ServerLogin server_login;         // of the job's servers, passed on to owners and workers
  std::string output;                        // checkpoint directory, or ""
  uint32_t save_every = 0;                   // epochs; 0: only at the end
  std::string resume;                        // checkpoint to go on from (or to evaluate), or ""
  std::string dump_rows;                     // file for all rows at the end, or ""

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
//   gathering ──► preparing ──► training ──► evaluating ──► saving ──► training …
//       │             │            │  ▲           │            │
//       │             │     commit └──┘           │            └──► ending ──► over
//       └─────────────┴── stop: save if anything was trained ──────► ending
//   any ── a lost owner, an error of a worker ──► failed ──► over
//
// A lost owner that has a journal stops only the leases, in any phase from training to saving:
//
//   paused ── a shard process joins, recovers, is at the job's version, all owners have the new map ──► on
//      └───── none for storage.owner_timeout ──► failed
LocalMasterActor spawn_master(caf::actor_system& system, std::shared_ptr<const MasterConfig> config);

}  // namespace embers
