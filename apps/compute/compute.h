#pragma once

#include "apps/command_line/command.h"

// The commands that compute with libtorch. Each returns the exit status, or throws embers::Error.
namespace embers {

int train(const TrainOptions& options);
int serve_master(const MasterOptions& options);
int serve_worker(const WorkerOptions& options);
int evaluate(const EvaluateOptions& options);
int predict(const PredictOptions& options);
int check(const JobOptions& options);
int examine(const JoinOptions& options);

}  // namespace embers
