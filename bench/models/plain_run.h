#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/harness/loss_course.h"
#include "bench/peers/plain_models.h"
#include "data/dataset.h"

namespace embers {

// One epoch of a side, seconds per example.
struct Epoch {
  double seconds = 0, dense = 0, embedding = 0;
  nlohmann::json parts;
};

// What a run of one side came to.
struct TrainingRun {
  std::vector<Epoch> epochs;   // after the first: by then every row is there
  double examples = 0;         // of these
  double cpu_seconds = 0;      // per example of these, of all processes, with their evaluations
  std::vector<LossAt> course;  // at the beginning, and after each epoch; seconds are those of all epochs

  Epoch median() const;      // the one in the middle, by seconds
  double test_loss() const;  // the least after an epoch
};

// Trains a new plain model in this process for the job's epochs, on so many threads. The next minibatch is
// read on a thread of its own meanwhile. Losses are evaluated after each epoch, without being timed.
TrainingRun run_plain(const job::Job& job, const std::shared_ptr<const data::Dataset>& train,
                      const std::shared_ptr<const data::Dataset>& test, uint32_t threads,
                      const PlainModel::Options& options);

}  // namespace embers
