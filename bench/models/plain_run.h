#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/harness/child.h"
#include "bench/harness/loss_course.h"
#include "bench/harness/processes.h"
#include "bench/peers/plain_models.h"

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

// How a plain model is trained.
struct PlainWay {
  uint32_t threads = 1;
  PlainModel::Options options;
  Policy policy = Policy::kOther;
};

// A process that trains plain models, under one of two mallocs: glibc's, told to keep its memory, or
// mimalloc, as embers' programs have it. Either has huge pages.
class PlainProcess {
 public:
  // kInvalid if there is no such malloc.
  explicit PlainProcess(bool mimalloc);
  // Trains a new model for all epochs of the job that the file describes. The next minibatch is read on a
  // thread of its own meanwhile. Losses are evaluated after each epoch, without being timed.
  TrainingRun run(const std::string& job_file, const PlainWay& way);

 private:
  BenchChild child_;
};

// The part "plain-train": answers each question of PlainProcess.
void serve_plain_runs();

}  // namespace embers
