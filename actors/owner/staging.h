#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "actors/owner/accumulate.h"
#include "actors/owner/read_push.h"
#include "actors/owner/staged_journal.h"

namespace embers {

// The gradients of a version.
struct VersionSum {
  std::vector<AccumulatedTable> tables;
  uint64_t left_out = 0;  // rows of its minibatches
};

// The pushes of a sync job that an owner has acknowledged and not applied yet, by minibatch, and in its
// journal if it has one. Plain state, owned by the optimizer actor.
class Staging {
 public:
  explicit Staging(std::shared_ptr<StagedJournal> journal = nullptr) : journal_(std::move(journal)) {}

  // The first push of a minibatch stays: all attempts at it have the same gradients. False if there is one of
  // another attempt. When it returns, the push that stays is in the journal.
  bool add(PushPtr push);
  // The same for a push from the journal.
  void add_again(PushPtr push);

  // Adds up the minibatches of a commit, in its order; kInternal for one that is not staged, kInvalid for one
  // that comes twice.
  VersionSum add_up(wire::CommitRequest::Reader commit, std::span<const TableSpec> tables) const;

  size_t size() const { return staged_.size(); }
  // Records of a staged minibatch.
  uint32_t examples(uint64_t minibatch) const { return staged_.at(minibatch)->origin.examples; }
  // Drops a minibatch that was applied.
  void drop(uint64_t minibatch);

 private:
  std::map<uint64_t, PushPtr> staged_;
  std::shared_ptr<StagedJournal> journal_;
};

}  // namespace embers
