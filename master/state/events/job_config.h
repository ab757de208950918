#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "schema/table_spec.h"

namespace embers {

// What decides the course of a job; constant.
struct JobConfig {
  // kEvaluate: the checkpoint `resume` on the test set, read-only; rows are restored without slots.
  enum class Task : uint8_t { kTrain, kEvaluate };

  job::Job job;
  Task task = Task::kTrain;
  ModelSpec model;  // of a job whose model comes with its first worker: empty until then, as all that follows
                    // from it

  uint32_t workers = 1;  // the job starts when this many have joined; more may join later
  uint32_t shards = 1;   // and this many owners

  uint64_t train_minibatches = 0, train_records = 0;
  std::vector<std::string> train_signature;  // Dataset::signature() of the training data
  std::vector<std::string> settings;         // what a worker must agree with, besides the model
  uint64_t test_minibatches = 0;             // 0: no evaluation
  std::string output;                        // checkpoint directory, or ""
  uint32_t save_every = 0;                   // epochs; 0: only at the end
  std::string resume;                        // checkpoint to go on from (or to evaluate), or ""
  std::vector<std::string>
      saved_model;        // signature() of that checkpoint's model, where the model comes with a worker
  std::string dump_rows;  // file for all rows at the end, or ""
};

}  // namespace embers
