#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/routing/local_model.h"
#include "client/pipeline/work.h"
#include "job/job.h"

namespace embers {

// Carries a process's own steps over to dense parameters that were pulled before them (docs/update-modes.md,
// "Own steps"). Not thread safe.
class OwnSteps {
 public:
  // Whether this job has them: where pulls go ahead and need not be of one version, and a step can be told
  // here. It cannot where gradients are clipped, or weighed by their staleness, at their owners, nor where an
  // update rule remembers all gradients of the job.
  static bool are_carried(const job::Job& job, const TableSpec& dense);

  // `most`: how many steps a pull may lack (training.prefetch).
  explicit OwnSteps(size_t most) : most_(most) {}
  // Notes which dense parameters the work has pulled. Works must be in order.
  void note(const Work& work);
  // Whether others may push, too: an owner's versions have lately grown by more than this process's steps, or
  // too little has been noted to tell.
  bool others_push() const { return !tells_ || alone_ <= kLately; }
  // Adds to what the work has pulled the steps that it lacks: those after the last one that the owner had
  // applied when it answered. `owners`: of each chunk of dense parameters. Chunks that were read straight
  // from servers are left alone, since nobody knows what they have.
  void add_to(Work& work, std::span<const size_t> owners) const;
  // Before the work is handed on to be pushed: by how much its gradients change the dense parameters. Gives
  // the step a number, one more than the last one's.
  void keep(Work& work, std::vector<float> change);

 private:
  struct Step {
    uint64_t number;
    std::shared_ptr<const NotApplied> not_applied;
    std::vector<float> change;
  };
  static constexpr size_t kLately = 16;  // works
  static bool is_lacking(const Step& step, const Work& work, size_t owner);

  const size_t most_;
  // Of the last step. It begins with the time, so that a pipeline which begins anew goes on above the numbers
  // of the one before.
  uint64_t last_ = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  std::deque<Step> steps_;                       // the latest ones
  std::vector<std::optional<DenseRead>> noted_;  // by owner
  bool tells_ = false;                           // the last work noted does: an owner has said what it has
  size_t alone_ = 0;                             // works that tell, since others were seen to push
};

// The owner of each chunk of dense parameters.
std::vector<size_t> dense_owners(const ModelSpec& model, const OwnerMap& map);

}  // namespace embers
