#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/command_line/command.h"
#include "base/files/directory_lock.h"
#include "data/dataset.h"
#include "job/job.h"
#include "master/master.h"
#include "model/step.h"

namespace embers {

// A job with its model and data, read and validated.
struct JobSetup {
  job::Job job;
  std::shared_ptr<ModelRunner> runner;  // null if the model is a Python module: the first worker tells it
  std::shared_ptr<const data::Dataset> train,
      test;  // test: null without test files; train: null when evaluating
  std::string index_dir;
};

// What the job is prepared for.
enum class Purpose : uint8_t { kTrain, kEvaluate };

// Where the record index of this output is kept: next to it. "" without an output.
std::string index_dir_of(const std::string& output);

// Anything wrong with the job file, model, initializers, optimizers or data files is found here, as kInvalid.
JobSetup set_up(job::Job job, Purpose purpose, const std::string& index_dir);

// The job file with overrides, paths made absolute so that processes started elsewhere find them too.
// kInvalid also for a directory to resume from that holds no checkpoint, and for outputs that cannot be
// written.
job::Job load_job(const JobOptions& options, std::vector<std::string> more_overrides = {});

// Keeps other jobs from writing to --output while this one runs; nullptr without it. kInvalid when one does.
std::unique_ptr<const DirectoryLock> lock_output(const JobOptions& options);

// What a worker must agree on with its master: the job's values and what the data hold.
std::vector<std::string> agreed_settings(const JobSetup& setup);

// What the master is told about the job; owners, members and callbacks are still to be set.
std::shared_ptr<MasterConfig> master_config(const JobSetup& setup, const JobOptions& options);

// What it reads and writes.
void set_files(MasterConfig& config, const JobOptions& options);

}  // namespace embers
