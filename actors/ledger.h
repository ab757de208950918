#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "actors/staleness.h"
#include "schema/codec.h"

namespace embers {

// What an owner remembers so that (epoch, minibatch) is applied once, whatever is retried or replayed. Plain
// state, owned by the optimizer actor.
//
// Invariants: (1) a minibatch is never both applied and staged; (2) only minibatches of the current epoch are
// kept: the master starts an epoch only when the one before it is applied everywhere.
class Ledger {
 public:
  uint64_t version = 0;      // async: applies; sync: commits
  uint64_t examples = 0;     // records applied in the job
  uint64_t minibatches = 0;  // minibatches applied in the job
  uint64_t duplicates = 0;
  uint64_t left_out = 0;  // bad rows of gradients

  // Whether the push was applied before (its epoch may be over). A push of a later epoch begins that epoch.
  bool is_applied(uint32_t epoch, uint64_t minibatch) {
    if (epoch > epoch_) begin_epoch(epoch);
    return epoch < epoch_ || applied_.contains(minibatch);
  }
  void begin_epoch(uint32_t epoch) {
    epoch_ = epoch;
    applied_.clear();
    staleness_ = {};
  }
  void mark_applied(uint64_t minibatch, uint32_t count) { applied_[minibatch] = count; }
  void unmark(uint64_t minibatch) { applied_.erase(minibatch); }

  // Records of a minibatch of the epoch, if it is applied.
  std::optional<uint32_t> applied(uint32_t epoch, uint64_t minibatch) const {
    const auto found = applied_.find(minibatch);
    if (epoch != epoch_ || found == applied_.end()) return std::nullopt;
    return found->second;
  }

  void add_staleness(uint64_t staleness) { staleness_.add(staleness); }
  // Of the applied pushes of the epoch.
  Staleness staleness(uint32_t epoch) const { return epoch == epoch_ ? staleness_ : Staleness(); }

  void fence(uint64_t incarnation) { fenced_.insert(incarnation); }
  bool is_fenced(uint64_t incarnation) const { return fenced_.contains(incarnation); }

 private:
  uint32_t epoch_ = 0;
  std::map<uint64_t, uint32_t> applied_;  // records of each minibatch
  Staleness staleness_;                   // of the epoch
  std::set<uint64_t> fenced_;
};

}  // namespace embers
