#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/owner/staleness.h"
#include "base/stage_times.h"

namespace embers {

// Sums over all owners, as their acknowledgements count them.
struct OwnerStats {
  uint64_t examples = 0;  // records applied: the same at every owner once a version is complete
  uint64_t minibatches = 0;
  uint64_t version = 0;
  uint64_t duplicates = 0;     // pushes whose minibatch another attempt had pushed before; of all owners
  uint64_t bad_gradients = 0;  // rows left out (training.on_bad_gradient = "skip"); of all owners
  Staleness staleness;         // of the epoch's pushes to all owners; in Report::total of all epochs
  uint64_t rows = 0;
  uint64_t resident_bytes = 0;
};

// One epoch, or the whole job. Numbers that do not exist (AUC without a test set) are NaN here and null in
// JSON.
struct Period {
  uint64_t examples = 0;                        // from the owners' counts
  double seconds = 0;                           // of training, evaluation left out
  double loss = 0;                              // training, mean over its examples
  double test_loss = 0, auc = 0, accuracy = 0;  // test set, at its end
  uint64_t workers = 0, shards = 0;
  OwnerStats owners;                  // at its end
  uint64_t keys = 0, cache_hits = 0;  // unique keys of its minibatches; those that workers' caches had
  StageTimes stages;                  // of all its minibatches, added up over the workers

  double examples_per_second() const { return seconds > 0 ? static_cast<double>(examples) / seconds : 0; }
};

struct Report {
  std::string job, mode, stopped_by;  // stopped_by: "" or what ended the job early
  Period total;                       // test metrics: after the last epoch
  std::vector<Period> epochs;
  uint64_t first_epoch = 0;  // number of epochs[0], from 1
  uint64_t workers_joined = 0, workers_lost = 0;
  uint64_t skipped_rows = 0;  // bad rows left out (data.on_bad_row = "skip")
  uint64_t late_pulls = 0;    // pulls during forward passes
  uint64_t direct_rows = 0;   // that workers read straight from servers
  uint64_t owner_rows = 0;    // that owners gave workers
  uint64_t released = 0;      // minibatches leased again after a loss, a refusal or a deadline
};

// A line a second while the job runs.
struct Progress {
  uint64_t epoch = 0, epochs = 0;  // from 1
  bool evaluating = false;
  uint64_t minibatches = 0, total_minibatches = 0;  // of the epoch, or of the evaluation
  uint64_t examples = 0;                            // of the job, or of the evaluation
  double seconds = 0, examples_per_second = 0;      // of the epoch, or of the evaluation
  double loss = 0, auc = 0;                         // recent training minibatches
  std::optional<double> remaining;                  // seconds until the job has ended, if it is known
  uint64_t workers = 0;
  OwnerStats owners;
};

}  // namespace embers
