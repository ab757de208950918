#pragma once

#include <caf/all.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "actors/direct_reads.h"
#include "actors/message_types.h"
#include "data/minibatch.h"
#include "model/step.h"
#include "schema/codec.h"
#include "schema/partition.h"

namespace embers {

// One minibatch on its way through a worker: read -> pull -> train -> push. Each stage fills its part and
// hands the work on; only the stage that holds it touches it.
struct Work {
  // From the lease.
  bool evaluate = false;  // read-only, test set
  bool exact = false;     // sync training: exactly origin.version is pulled
  Origin origin;
  bool refused = false;  // an owner found it stale: no more is done for it, the master leases it again
  // read, dedupe
  data::Minibatch minibatch;
  Lookups lookups;
  // pull
  bool pulls_dense = true;  // false: computed on the worker's local model (training.get_model_steps)
  PulledRows rows;
  // Of each owner: what was read of its rows is of this version or later; none where nothing was read.
  std::vector<std::optional<uint64_t>> versions;
  uint64_t direct_rows = 0, owner_rows = 0;  // read straight from servers, and from owners
  // train
  StepResult result;
  uint32_t late_pulls = 0;

  // Something was read of an owner. What came first is the older.
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
  std::vector<OwnerHandles> handles;  // by shard id
  ShardMap map;
  std::vector<TableSpec> tables;  // by TableId
  DirectReader direct;            // of the servers behind the owners; null: only owners have the rows
};

}  // namespace embers

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::WorkPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::StageFailure)

namespace embers {

// What an owner's error is to the worker: one that is gone is named.
inline StageFailure owner_failure(size_t owner, const Error& why) {
  if (remedy(why.code()) != Remedy::kRetry) return {why.code(), why.what()};
  return {ErrorCode::kUnavailable, fmt::format("lost shard {}: {}", owner, why.what())};
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
