#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/owner/applied_note.h"
#include "actors/owner/staleness.h"
#include "schema/messages/codec.h"

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
  uint64_t left_out = 0;   // bad rows of gradients
  uint64_t under_way = 0;  // records of applies that the shard has not acknowledged

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
  // count: 0 if an earlier run of the job applied it.
  void mark_applied(uint64_t minibatch, uint32_t count) { applied_[minibatch] = count; }
  // Of a minibatch that is applied and was pushed again. If it was an earlier run of the job that applied it,
  // so that nothing has counted it, it counts now; once. Then there is a note of that.
  std::optional<AppliedNote> count_resumed(uint32_t epoch, uint64_t minibatch, uint32_t count) {
    const auto found = applied_.find(minibatch);
    if (epoch != epoch_ || found == applied_.end() || found->second != 0 || count == 0) return std::nullopt;
    found->second = count;
    examples += count;
    ++minibatches;
    return AppliedNote{false, epoch_, version, minibatches, 0, 0, {{minibatch, count}}};
  }
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

  // The note of an apply of the current epoch. After it the owner is at `version_made`, and the job has
  // applied `steps` minibatches.
  AppliedNote note(uint64_t version_made, uint64_t steps, uint64_t bad_rows,
                   std::vector<std::pair<uint64_t, uint32_t>> applied) {
    AppliedNote n{std::exchange(noted_epoch_, epoch_) != epoch_,
                  epoch_,
                  version_made,
                  steps,
                  0,
                  bad_rows,
                  std::move(applied)};
    if (n.first) {
      n.examples_before = examples + under_way;
      n.left_out += left_out;
    }
    return n;
  }
  // A note of everything that is known now, for a resumed job.
  AppliedNote note_of_all() {
    noted_epoch_ = epoch_;
    return {true, epoch_, version, minibatches, examples, left_out, {applied_.begin(), applied_.end()}};
  }
  // Adds what the owner's last process noted. The same note may come twice.
  void recover(const AppliedNote& n) {
    if (n.first) {
      begin_epoch(noted_epoch_ = n.epoch);
      examples = n.examples_before;
      left_out = 0;
    }
    version = n.version;
    minibatches = n.minibatches;
    bool fresh = n.first;
    for (const auto& [minibatch, count] : n.applied) {
      const auto [at, is_new] = applied_.emplace(minibatch, count);
      if (!is_new && (at->second != 0 || count == 0)) continue;
      at->second = count;  // of an earlier run, and counted since
      examples += count;
      fresh |= is_new;
    }
    if (fresh) left_out += n.left_out;
  }

  void fence(uint64_t incarnation) { fenced_.insert(incarnation); }
  bool is_fenced(uint64_t incarnation) const { return fenced_.contains(incarnation); }

 private:
  uint32_t epoch_ = 0;
  uint32_t noted_epoch_ = UINT32_MAX;     // of the last note
  std::map<uint64_t, uint32_t> applied_;  // records of each minibatch
  Staleness staleness_;                   // of the epoch
  std::set<uint64_t> fenced_;
};

}  // namespace embers
