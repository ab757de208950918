// embers evaluate and embers predict: a saved model, read-only, in this process.
#include <cmath>

#include "apps/compute/cluster.h"
#include "apps/compute/compute.h"
#include "base/files/output_file.h"
#include "base/log/standard_error.h"

namespace embers {
namespace {

JobResult run_evaluation(const EvaluateOptions& options) {
  Console console(standard_error());
  const JobSetup setup = set_up(load_job(options.job), Purpose::kEvaluate, "", options.data);
  const auto config = master_config(setup, options.job);
  config->task = MasterConfig::Task::kEvaluate;
  config->job.storage.backend = "memory";  // a job that is training may be using its servers
  JobResult result = run_in_process(setup, config, console);
  if (!result.error && !result.report.stopped_by.empty())
    result.error = Error(ErrorCode::kJobFailed,
                         fmt::format("{}: not all records were evaluated", result.report.stopped_by));
  return result;
}

std::string predictions(const Evaluation& evaluation) {
  std::string csv = "record,score,label\n";
  for (const auto& [minibatch, result] : evaluation.results())
    for (size_t i = 0; i < result.scores.size(); ++i)
      csv += fmt::format("{},{},{}\n", result.records[i], result.scores[i],
                         i < result.labels.size() ? fmt::format("{}", result.labels[i]) : "");
  return csv;
}

}  // namespace

int evaluate(const EvaluateOptions& options) {
  conclude(run_evaluation(options), options.job.report);
  return 0;
}

int predict(const PredictOptions& options) {
  check_file(options.out);
  const JobResult result = run_evaluation(options.evaluate);
  if (!result.error) write_file(options.out, predictions(result.evaluation));
  conclude(result, options.evaluate.job.report);
  return 0;
}

}  // namespace embers
