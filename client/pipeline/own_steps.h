#pragma once

#include <chrono>
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
  // Adds to what the work has pulled the steps that it lacks. `owners`: of each chunk of dense parameters. A
  // chunk lacks a step if its version is older than what the step's push has made of its owner; and if the
  // owner has not answered that push, if the chunk was there before the step was taken. In between nobody
  // knows here, and the step is left out, as it is of chunks that were read straight from servers.
  void add_to(Work& work, std::span<const size_t> owners) const;
  // Before the work is handed on to be pushed: by how much its gradients change the dense parameters.
  void keep(Work& work, std::vector<float> change);

 private:
  using Clock = std::chrono::steady_clock;
  struct Step {
    std::shared_ptr<const PushAnswers> answers;
    Clock::time_point taken;
    std::vector<float> change;
  };
  static bool is_lacking(const Step& step, const Work& work, size_t owner);

  const size_t most_;
  std::deque<Step> steps_;  // the latest ones
};

// The owner of each chunk of dense parameters.
std::vector<size_t> dense_owners(const ModelSpec& model, const OwnerMap& map);

}  // namespace embers
