#pragma once

#include <string>
#include <vector>

#include "apps/compute/job_setup.h"

// A saved model on test data, in this process or in several.
namespace embers {

// The override that makes `files` the job's test files; none if there are none.
std::vector<std::string> use_test_files(const std::vector<std::string>& files);

// As master_config(), for a job that evaluates the checkpoint options.resume. `predictions`: the CSV file to
// write, or "".
std::shared_ptr<MasterConfig> evaluation_config(const JobSetup& setup, const JobOptions& options,
                                                const std::string& predictions);

// As conclude(); an evaluation that was stopped is an error.
void conclude_evaluation(JobResult result, const std::string& report_file);

}  // namespace embers
