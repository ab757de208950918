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
  // Adds to what the work has pulled the steps that it lacks. `holders`: by owner, whether it holds dense
  // parameters. A step that some of them have and others have not counts as lacking.
  void add_to(Work& work, const std::vector<bool>& holders) const;
  // Before the work is handed on to be pushed: by how much its gradients change the dense parameters.
  void keep(Work& work, std::vector<float> change);

 private:
  struct Step {
    std::shared_ptr<const PushAnswers> answers;
    std::vector<float> change;
  };

  const size_t most_;
  std::deque<Step> steps_;  // the latest ones
};

// By owner: whether it holds dense parameters.
std::vector<bool> dense_holders(const ModelSpec& model, const OwnerMap& map, size_t owners);

}  // namespace embers
