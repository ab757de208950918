// embers check: everything that can be wrong before training, without training.
#include "apps/compute/compute.h"
#include "apps/compute/job_setup.h"
#include "apps/compute/python_program.h"
#include "master/model_checks.h"
#include "master/partitions.h"

namespace embers {
namespace {

// Only Python knows the tables of its model.
int check_python_model(const job::Job& job) {
  std::vector<std::string> words{"check", job.source.path};
  for (const std::string& set : job.source.overrides) words.insert(words.end(), {"--set", set});
  words.insert(words.end(), {"--set", "model.python_path=" + nlohmann::json(job.model.python_path).dump()});
  std::string lines;
  const int status = run_python(words, lines);
  fmt::print("{}", lines);
  return status;
}

// Tables and parameters, and how tables are partitioned that say so.
void print_model(ModelSpec model, const job::Job& job) {
  const std::vector<std::string> lines = signature(model);
  const std::vector<TableSpec> asked = model.tables;
  const std::vector<std::string> chosen = settle_partitions(model, scale_of(job, job.training.batch_size));
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool says = i < asked.size() && asked[i].partition != Partition::kToken;
    fmt::print("{}{}\n", lines[i],
               says ? fmt::format(", partition {}", name(model.tables[i].partition)) : "");
  }
  for (const std::string& line : chosen) fmt::print("{}\n", line);
}

}  // namespace

int check(const JobOptions& options) {
  job::Job job = load_job(options);
  if (job.from_worker) {
    check_job(job);
    fmt::print("{}: ok; model and data come with the first worker\n", options.job);
    return 0;
  }
  const JobSetup setup = set_up(std::move(job), Purpose::kTrain, "");
  if (setup.runner) {
    print_model(setup.runner->spec(), setup.job);
  } else if (const int status = check_python_model(setup.job)) {
    return status;
  }
  fmt::print("{}: ok; {} training records, {} test records\n", options.job, setup.train->records(),
             setup.test ? setup.test->records() : 0);
  return 0;
}

}  // namespace embers
