#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/message_types.h"
#include "base/errors.h"
#include "client/pipeline/work.h"
#include "job/job.h"
#include "schema/messages/told_model.h"

namespace embers {

// The parts of a session that know data and model, each an actor that fills in a work and sends it to `next`.
// What it throws (see stage()) ends the session. Null for readers.
struct SessionParts {
  std::function<WorkPtr()> make_work;  // an empty work: what the parts keep in one
  // Makes the part that gets a leased work, says which keys it wants, and sets is_read.
  std::function<StageActor(caf::actor_system& system, const StageActor& next, const StageOwner& session)>
      read;
  // Makes the part that gets a pulled work and computes its gradients and report; one for each pipeline (see
  // spawn_session).
  std::function<StageActor(caf::actor_system& system, std::shared_ptr<const Owners> owners,
                           const StageActor& next, const StageOwner& session)>
      train;
  // Works wait in the part that trains for as long as a program likes, and need no owners meanwhile: where
  // owners have moved, works that come later have a pipeline of their own beside them. Otherwise, pipelines
  // follow each other.
  bool holds_works = false;
};

// Everything a session needs to know, constant after its start.
struct SessionConfig {
  job::Job job;
  uint64_t run = 0;         // number of the run, from the master's answer to JobRequest
  MasterActor master;       // local, or a proxy
  std::string master_name;  // for messages: its address, or "the master"
  std::string host, boot_id;
  std::string label;   // that whoever started this process gave it, or ""
  uint64_t token = 0;  // of the join, random: not 0 where `master` is a link that is kept
  // A worker is leased minibatches; a reader only looks rows up, nobody waits for it, and it can change
  // nothing.
  wire::Role role = wire::Role::WORKER;
  // What a worker must agree on with its master.
  ModelSpec model;                    // tables and dense parameters; the rest is the master's to say
  std::vector<std::string> numeric;   // numeric settings, "name=value"
  std::vector<std::string> settings;  // as MasterConfig's
  // In a job whose model comes with its first worker: what this one says; null in other jobs.
  std::shared_ptr<const ToldModel> told;
  std::shared_ptr<const FloatBuffer> dense, buffers;  // first values, in chunks; null or empty: zeros
  // Leases that a worker may draw ahead of their work. Then each is drawn when somebody says so, and the work
  // on it begins when somebody says so. 0: leases are asked for as the pipeline needs them.
  uint32_t window = 0;
  SessionParts parts;
  uint32_t get_model_steps = 1;  // every how many training minibatches the dense model is pulled
  // Handles of an owner that listens at these endpoints on a host with this boot id; `number` is its shard
  // id.
  std::function<OwnerHandles(size_t number, const std::vector<std::string>& endpoints,
                             const std::string& boot_id, uint64_t incarnation)>
      connect_owner;
  // Ends such handles: what they were asked is answered with an error. Null for none.
  std::function<void(const OwnerHandles& owner)> drop_owner;
  WordsMemoryPtr memory;  // where large messages to owners are built; null for the heap

  // Called in the session's thread.
  std::function<void(std::shared_ptr<const Owners>)>
      on_owners;                        // where they are: joined, or they have moved. May be null
  std::function<void()> on_last_lease;  // nothing more is leased. Null for none
  std::function<void()> on_finished;    // a minibatch is done. Null for none
  std::function<void()> on_later;       // window: the master has nothing until what is held is done
  std::function<void(const WorkPtr&, bool begun)> on_begun;  // window: the answer to (begin)
  std::function<void(const WorkPtr&)> on_over;               // done, or given back. Null for none
  std::function<void(std::optional<Error>)>
      on_end;  // once; without an error when the job is done or leaving was asked; kTimeout when the master
               // could not be reached for too long, and kFenced when it has given up on this session
};

using leave_atom = caf::atom_constant<caf::atom("leave")>;
using look_atom = caf::atom_constant<caf::atom("look")>;
using draw_atom = caf::atom_constant<caf::atom("draw")>;
using begin_work_atom = caf::atom_constant<caf::atom("beginwork")>;
using give_back_atom = caf::atom_constant<caf::atom("giveback")>;
using go_on_atom = caf::atom_constant<caf::atom("goon")>;
using end_atom = caf::atom_constant<caf::atom("end")>;

// A session as its own process sees it.
//   (leave)        finishes what is under way and goes
//   (look, owner map version)  an owner was not found where that map says: looks for the owners again
//   (give back)    what is leased and not read yet goes back to the master
//   (end)          goes at once; the master gives what is under way to others
//   (draw)         window: asks for one lease; on_later, on_last_lease, or a work for the part that reads
//   (begin, work)  window: asks whether the work on a lease may begin
using SessionActor =
    caf::typed_actor<caf::reacts_to<leave_atom>, caf::reacts_to<look_atom, uint32_t>,
                     caf::reacts_to<end_atom>, caf::reacts_to<draw_atom>, caf::reacts_to<give_back_atom>,
                     caf::reacts_to<go_on_atom>, caf::reacts_to<begin_work_atom, WorkPtr>>;

// Spawns a session: joins the master, and tells it regularly that this process lives. A worker's keeps a
// pipeline of stages busy with leased minibatches, at most 1 + prefetch of them until their push is answered,
// and one more that is read:
//
//   lease ──► [read] ──► (credit) ──► pull ──► [train] ──► push ──► (credit back) ──► done
//
// [..] are the parts that are plugged in. When an owner moved to another process, what is in the pipeline
// (from pull on) is given back to the master, and a new pipeline begins with the owners' new places, once the
// old one is empty (or see SessionParts::holds_works).
SessionActor spawn_session(caf::actor_system& system, std::shared_ptr<const SessionConfig> config);

}  // namespace embers
