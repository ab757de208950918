#pragma once

#include <deque>
#include <memory>
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
  // Adds to what the work has pulled the steps that it lacks: those after the last one that the owner had
  // applied when it answered. `owners`: of each chunk of dense parameters. Chunks that were read straight
  // from servers are left alone, since nobody knows what they have.
  void add_to(Work& work, std::span<const size_t> owners) const;
  // Before the work is handed on to be pushed: by how much its gradients change the dense parameters. Gives
  // the step a number.
  void keep(Work& work, std::vector<float> change);

 private:
  struct Step {
    uint64_t number;
    std::shared_ptr<const NotApplied> not_applied;
    std::vector<float> change;
  };
  static bool is_lacking(const Step& step, const Work& work, size_t owner);

  const size_t most_;
  std::deque<Step> steps_;  // the latest ones
};

// The owner of each chunk of dense parameters.
std::vector<size_t> dense_owners(const ModelSpec& model, const OwnerMap& map);

}  // namespace embers
