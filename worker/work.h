#pragma once

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "actors/message_types.h"
#include "actors/routing/direct_reads.h"
#include "base/stage_times.h"
#include "data/minibatch.h"
#include "model/step.h"
#include "schema/codec.h"
#include "schema/partition.h"

namespace embers {

// How long a process that lost an owner, or a server behind owners, waits for others to say what happened.
inline constexpr auto kVerdict = std::chrono::seconds(3);

// One minibatch on its way through a worker: read -> pull -> train -> push. Each stage fills its part and
// hands the work on; only the stage that holds it touches it.
struct Work {
  // From the lease.
  bool evaluate = false;  // read-only, test set
  bool exact = false;     // sync training: exactly origin.version is pulled
  uint64_t lease = 0;
  Origin origin;
  bool refused = false;       // an owner found it stale: no more is done for it, the master leases it again
  bool owners_moved = false;  // refused, because an owner is not where this worker looked for it
  // read, dedupe
  bool is_read = false;
  data::Minibatch minibatch;
  Lookups lookups;
  // pull
  bool pulls_dense = true;  // false: computed on the worker's local model (training.get_model_steps)
  PulledRows rows;
  // For each owner: the rows that were read from it, or taken from a cache, are of this version or later;
  // none if nothing was read.
  std::vector<std::optional<uint64_t>> versions;
  uint64_t direct_rows = 0, owner_rows = 0;  // read straight from servers, and from owners
  uint64_t cache_hits = 0;
  // train
  StepResult result;
  uint32_t late_pulls = 0;
  // for the report
  StageTimes times;
  StopWatch since_pull, since_push;

  // Something was read from an owner. The older version counts.
  void read_of(size_t owner, uint64_t version) {
    versions[owner] = std::min(versions[owner].value_or(version), version);
  }
};
using WorkPtr = std::shared_ptr<Work>;

// What ended the work, told to the worker actor.
struct StageFailure {
  ErrorCode code;
  std::string message;
};

// Every stage: takes a work, sends it on to the next.
using StageActor = caf::typed_actor<caf::reacts_to<WorkPtr>>;
// The worker as its stages see it: a finished work comes back, or a failure.
using StageOwner = caf::typed_actor<caf::reacts_to<WorkPtr>, caf::reacts_to<StageFailure>>;

// Where rows live: what every stage that talks to owners needs. Constant.
struct Owners {
  std::vector<OwnerHandles> handles;  // by owner number
  OwnerMap map;
  std::vector<TableSpec> tables;           // by TableId
  bool may_return = false;                 // a lost owner's next process takes its place: see master/master.h
  NumberType wire = NumberType::kFloat32;  // what rows and gradients are sent as
  DirectReader direct;  // of the servers behind the owners; null: only owners have the rows
};

}  // namespace embers

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::WorkPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::StageFailure)

namespace embers {

// An owner's error as the worker reports it: an owner that is gone is named.
inline StageFailure owner_failure(size_t owner, const Error& why) {
  if (remedy(why.code()) != Remedy::kRetry) return {why.code(), why.what()};
  return {ErrorCode::kUnavailable, fmt::format("lost shard {}: {}", owner, why.what())};
}

// Whether an owner's error only means that the work is given back, to be leased again: it is stale, or the
// owner is gone for a while. If so, marks the work.
inline bool is_given_back(const Owners& owners, Work& work, const Error& why) {
  const bool is_gone = remedy(why.code()) == Remedy::kRetry || why.code() == ErrorCode::kUnreachable;
  if (why.code() == ErrorCode::kStaleMap || (is_gone && owners.may_return)) work.owners_moved = true;
  if (!work.owners_moved && remedy(why.code()) != Remedy::kRefresh) return false;
  work.refused = true;
  return true;
}

// Runs a stage's body; what it throws ends the work as a failure of the worker.
template <class F>
void stage(const StageOwner& worker, F&& body) {
  try {
    body();
  } catch (const Error& e) {
    caf::anon_send(worker, StageFailure{e.code(), e.what()});
  } catch (const std::exception& e) {
    caf::anon_send(worker, StageFailure{ErrorCode::kInternal, e.what()});
  }
}

}  // namespace embers
