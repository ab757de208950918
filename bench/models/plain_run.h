#pragma once

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

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
  std::vector<Epoch> epochs;    // after the first: by then every row is there
  double cpu_seconds = 0;       // per example of these, of all processes, with their evaluations
  double test_loss = INFINITY;  // the least after an epoch

  Epoch median() const;  // the one in the middle, by seconds
};

// Trains a new plain model in this process for the job's epochs, on so many threads. The next minibatch is
// read on a thread of its own meanwhile. Losses are evaluated after each epoch, without being timed.
TrainingRun run_plain(const job::Job& job, const std::shared_ptr<const data::Dataset>& train,
                      const std::shared_ptr<const data::Dataset>& test, uint32_t threads,
                      const PlainModel::Options& options);

}  // namespace embers
