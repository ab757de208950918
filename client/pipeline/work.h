#pragma once

#include <caf/all.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "actors/message_types.h"
#include "actors/routing/direct_reads.h"
#include "base/mutex.h"
#include "base/stage_times.h"
#include "schema/messages/codec.h"
#include "schema/partition.h"
#include "schema/pulled_rows.h"

namespace embers {

// How long a process that lost an owner, or a server behind owners, waits for others to say what happened.
inline constexpr auto kVerdict = std::chrono::seconds(3);

// Gradients of one table, as the part that trains keeps them: keys unique, keys.size() x dim values.
struct TableGradients {
  TableId table = 0;
  KeysView keys;
  std::span<const float> values;
};

// What the master is told about a minibatch that is done. Views of what the work's maker keeps.
struct WorkReport {
  uint64_t examples = 0;
  uint64_t skipped = 0;               // bad records that were left out
  double loss_sum = 0;                // loss times examples
  std::span<const float> scores;      // of each example
  std::span<const float> labels;      // of each example; empty without labels
  std::span<const uint64_t> records;  // of each example: its number in the data
};

// Owners that have not applied a work's push, or applied it earlier, as far as they have answered. The pusher
// tells; who takes own steps asks.
//
// *Thread safety*: all members from any thread.
class NotApplied {
 public:
  void add(size_t owner) {
    const MutexLock lock(mutex_);
    owners_.insert(owner);
  }
  bool has(size_t owner) const {
    const MutexLock lock(mutex_);
    return owners_.contains(owner);
  }

 private:
  mutable Mutex mutex_;
  std::set<size_t> owners_ ABSL_GUARDED_BY(mutex_);
};

// What an owner says of the dense parameters that it answers with.
struct DenseRead {
  uint64_t version;
  uint64_t own_step;  // the last of the asker's own steps (Origin) that they have; UINT64_MAX: not known
};

// One minibatch on its way through a session: lease -> read -> pull -> train -> push -> done. The session
// pulls and pushes; reading and training are parts that are plugged into it and keep what they need in a
// derived class (see session_actor.h). Only the stage that holds a work touches it.
struct Work {
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  // From the lease.
  bool evaluate = false;  // read-only, test set
  bool exact = false;     // sync training: exactly origin.version is pulled
  uint64_t lease = 0;
  Origin origin;
  bool refused =
      false;  // not to be finished here, as when an owner found it stale: the master leases it again
  uint64_t pipeline = 0;      // that it is in; the session's own
  bool owners_moved = false;  // refused, because an owner is not where this session looked for it
  // read: unique keys of embedding tables, in order of table id, and report.examples
  bool is_read = false;
  std::vector<TableKeyList> keys;
  // pull
  bool pulls_dense = true;  // false: computed on a local model (training.get_model_steps)
  PulledRows rows;
  // For each owner: the rows that were read from it, or taken from a cache, are of this version or later;
  // none if nothing was read.
  std::vector<std::optional<uint64_t>> versions;
  // For each owner: which dense parameters are in its answer; none if they were not asked of it.
  std::vector<std::optional<DenseRead>> dense_reads;
  uint64_t direct_rows = 0, owner_rows = 0;  // read straight from servers, and from owners
  uint64_t cache_hits = 0;
  // train
  std::vector<TableGradients> gradients;
  std::span<const float> dense;    // gradients of dense_chunks(model, false); empty for none
  std::span<const float> buffers;  // new values of dense_chunks(model, true); empty for none
  uint32_t late_pulls = 0;
  std::shared_ptr<NotApplied> not_applied;  // null: nobody wants to know
  WorkReport report;
  StageTimes times;
  StopWatch since_pull, since_push;

  // Something was read from an owner. The older version counts.
  void read_of(size_t owner, uint64_t version) {
    versions[owner] = std::min(versions[owner].value_or(version), version);
  }
  // Of what was read; 0 for nothing.
  uint64_t newest_version() const { return std::max_element(versions.begin(), versions.end())->value_or(0); }
};
using WorkPtr = std::shared_ptr<Work>;

// What ended the work, told to the session.
struct StageFailure {
  ErrorCode code;
  std::string message;
};

// Every stage: takes a work, sends it on to the next.
using StageActor = caf::typed_actor<caf::reacts_to<WorkPtr>>;
// The session as its stages see it: each work's push is answered, or it has none; then the work comes back,
// once the master knows. Or a failure.
using pushed_atom = caf::atom_constant<caf::atom("pushed")>;
using StageOwner =
    caf::typed_actor<caf::reacts_to<pushed_atom>, caf::reacts_to<WorkPtr>, caf::reacts_to<StageFailure>>;

// Where rows live: what every stage that talks to owners needs. Constant.
struct Owners {
  std::vector<OwnerHandles> handles;  // by owner number
  OwnerMap map;
  uint64_t incarnation = 0;                // of the session that looks there
  std::vector<TableSpec> tables;           // by TableId
  bool may_return = false;                 // a lost owner's next process takes its place: see master/master.h
  NumberType wire = NumberType::kFloat32;  // what rows and gradients are sent as
  WordsMemoryPtr memory;                   // where large messages to owners are built; null for the heap
  DirectReader direct;  // of the servers behind the owners; null: only owners have the rows
};

}  // namespace embers

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::WorkPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::StageFailure)

namespace embers {

// An owner's error as the session reports it: an owner that is gone is named.
inline StageFailure owner_failure(size_t owner, const Error& why) {
  if (remedy(why.code()) != Remedy::kRetry) return {why.code(), why.what()};
  return {ErrorCode::kUnavailable, fmt::format("lost shard {}: {}", owner, why.what())};
}

// Whether an owner's error only means that the owner is to be looked for again: it is gone for a while, or
// has moved.
inline bool has_moved(const Owners& owners, const Error& why) {
  const bool is_gone = remedy(why.code()) == Remedy::kRetry || why.code() == ErrorCode::kUnreachable;
  return why.code() == ErrorCode::kStaleMap || (is_gone && owners.may_return);
}

// Whether an owner's error only means that the work is given back, to be leased again: it is stale, or the
// owner is gone for a while. If so, marks the work.
inline bool is_given_back(const Owners& owners, Work& work, const Error& why) {
  if (has_moved(owners, why)) work.owners_moved = true;
  if (!work.owners_moved && remedy(why.code()) != Remedy::kRefresh) return false;
  work.refused = true;
  return true;
}

// Runs a stage's body; what it throws ends the session as its own failure.
template <class F>
void stage(const StageOwner& session, F&& body) {
  try {
    body();
  } catch (const Error& e) {
    caf::anon_send(session, StageFailure{e.code(), e.what()});
  } catch (const std::exception& e) {
    caf::anon_send(session, StageFailure{ErrorCode::kInternal, e.what()});
  }
}

}  // namespace embers
