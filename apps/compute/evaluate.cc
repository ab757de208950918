// embers evaluate and embers predict: a saved model, read-only.
#include "apps/compute/evaluate.h"

#include <filesystem>

#include "apps/compute/cluster.h"
#include "apps/compute/compute.h"
#include "apps/compute/python_job.h"
#include "base/files/output_file.h"
#include "base/log/standard_error.h"
#include "master/model_checks.h"

namespace embers {
namespace {

int run_evaluation(const EvaluateOptions& options, const std::string& predictions) {
  Console console(standard_error());
  const JobSetup setup = set_up(load_job(options.job, use_test_files(options.data)), Purpose::kEvaluate, "");
  const auto config = evaluation_config(setup, options.job, predictions);
  const auto conclude = [&](const JobResult& result) { conclude_evaluation(result, options.job.report); };
  if (!setup.runner) run_python_job(config, console, {}, conclude);
  run_in_process(setup, config, console, {}, conclude);
  return 0;
}

}  // namespace

std::vector<std::string> use_test_files(const std::vector<std::string>& files) {
  if (files.empty()) return {};
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& file : files)
    list.push_back(std::filesystem::absolute(file).lexically_normal().string());
  return {"data.test=" + list.dump()};
}

std::shared_ptr<MasterConfig> evaluation_config(const JobSetup& setup, const JobOptions& options,
                                                const std::string& predictions) {
  auto config = master_config(setup, options);
  config->task = MasterConfig::Task::kEvaluate;
  config->predictions = predictions;
  job::keep_rows_in_memory(config->job);
  without_slots(config->model);
  return config;
}

void conclude_evaluation(JobResult result, const std::string& report_file) {
  if (!result.error && !result.report.stopped_by.empty())
    result.error = Error(ErrorCode::kJobFailed,
                         fmt::format("{}: not all records were evaluated", result.report.stopped_by));
  conclude(result, report_file, false);
}

int evaluate(const EvaluateOptions& options) { return run_evaluation(options, ""); }

int predict(const PredictOptions& options) {
  check_file(options.out);
  return run_evaluation(options.evaluate, options.out);
}

}  // namespace embers
