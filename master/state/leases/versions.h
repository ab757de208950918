#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "job/job.h"
#include "storage/update_rules/clipping.h"

namespace embers {

// What all owners are asked to apply as one step: the minibatches of a version, in order.
struct Commit {
  struct Part {
    uint64_t minibatch = 0;
    uint32_t attempt = 0;
    double weight = 0;  // mean: its examples / examples of the version; sum: 1
  };
  uint64_t version = 0;  // that the step makes
  std::vector<Part> parts;
  storage::SquaredNorms norms;  // of the version's gradients, where they are clipped by norm
};

// Sync mode: which minibatches make the next version. Version v consumes `window` of them in the epoch's
// order; an epoch's last version may be short. Plain state, owned by the master.
class VersionWindow {
 public:
  VersionWindow() = default;
  VersionWindow(uint64_t version, uint64_t first, uint64_t total, uint32_t window, job::Reduction reduction);

  // Minibatches below this may be leased now.
  uint64_t limit() const { return limit_; }
  uint64_t begin() const { return begin_; }
  uint64_t version() const { return version_; }
  // That the minibatch is computed on; not below begin().
  uint64_t version_of(uint64_t minibatch) const { return version_ + (minibatch - begin_) / window_; }
  // The first minibatch of that version.
  uint64_t begin_of(uint64_t minibatch) const { return minibatch - (minibatch - begin_) % window_; }
  bool has_done() const { return !done_.empty(); }  // any of the next version's
  void complete(uint64_t minibatch, uint32_t attempt, uint64_t examples) {
    done_[minibatch] = {attempt, examples};
  }
  bool ready() const { return begin_ < limit_ && done_.size() == limit_ - begin_; }
  // The commit that makes the next version: minibatches in order, weighted by examples for a mean. `norms`:
  // of its gradients, where they are clipped by norm.
  Commit commit(storage::SquaredNorms norms = {}) const;
  // The commit is acknowledged: on to the next window.
  void advance();

 private:
  struct Done {
    uint32_t attempt;
    uint64_t examples;
  };
  uint64_t version_ = 0, begin_ = 0, limit_ = 0, total_ = 0;
  uint32_t window_ = 1;
  job::Reduction reduction_ = job::Reduction::kMean;
  std::map<uint64_t, Done> done_;
};

}  // namespace embers
