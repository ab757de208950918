// embers plan: which tables of a job are better split by rows and which by columns, measured on this host.
#include "apps/plan/plan.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>

#include "apps/compute/compute.h"
#include "apps/compute/job_setup.h"
#include "apps/plan/keys_file.h"
#include "apps/plan/plan_json.h"
#include "apps/plan/plan_text.h"
#include "base/files/output_file.h"
#include "base/log/standard_error.h"
#include "master/model_checks.h"

namespace embers {
namespace {

constexpr uint32_t kMostShards = 64;
constexpr uint64_t kMinibatches = 8;

std::vector<uint32_t> parse_shards(const std::string& list) {
  std::vector<uint32_t> all;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    uint32_t n = 0;
    const auto [rest, error] = std::from_chars(list.data() + begin, list.data() + end, n);
    if (error != std::errc() || rest != list.data() + end || n == 0 || n > kMostShards)
      fail(ErrorCode::kInvalid, "--shards {}: it must be numbers from 1 to {}, separated by commas", list,
           kMostShards);
    if (std::find(all.begin(), all.end(), n) == all.end()) all.push_back(n);
    begin = end + 1;
  }
  return all;
}

plan::Workload read_minibatches(job::Job job) {
  const JobSetup setup = set_up(std::move(job), Purpose::kTrain, "");
  plan::Workload workload;
  workload.job = setup.job;
  workload.batch_size = setup.job.training.batch_size;
  const ModelSpec& model = setup.runner->spec();
  for (const TableSpec& table : model.tables)
    if (!is_reserved(table.name)) workload.tables.push_back(table);
  const auto reader = data::MinibatchReader::make(setup.train, setup.job.data.shuffle);
  for (uint64_t i = 0; i < std::min(kMinibatches, setup.train->minibatches()); ++i) {
    data::Minibatch minibatch = reader->read(1, i);
    setup.runner->add_columns(minibatch);
    const Lookups lookups = setup.runner->dedupe(minibatch);
    auto& keys = workload.keys.emplace_back();
    for (const TableSpec& table : workload.tables) keys.emplace_back(table.key_kind);
    for (const Lookups::Table& table : lookups.tables) keys.at(table.table) = table.unique;
  }
  return workload;
}

plan::Workload workload_of(const PlanOptions& options, const job::Job& job) {
  if (!options.keys.empty()) {
    if (!job.model_from_worker())
      fail(ErrorCode::kInvalid, "{}: the job has a model and data of its own: leave --keys out",
           options.job.job);
    return plan::read_keys_file(job, options.keys);
  }
  if (job.model_from_worker())
    fail(
        ErrorCode::kInvalid,
        "{}: the model of this job comes with its first worker, so its tables are not known here: give them, "
        "and the keys of some minibatches, in a file (--keys), or call embers.plan() in Python",
        options.job.job);
  return read_minibatches(job);
}

}  // namespace

int plan_job(const PlanOptions& options) {
  const job::Job job = load_job(options.job);
  std::vector<uint32_t> shards = parse_shards(options.shards);
  for (const uint32_t n : shards) {  // what cannot be is said before anything is measured
    job::Job with = job;
    with.storage.shards = n;
    check_job(with);
  }
  const plan::Workload workload = workload_of(options, job);
  for (const uint32_t n : shards) {
    job::Job with = workload.job;
    with.storage.shards = n;
    ModelSpec model;
    model.tables = workload.tables;
    check_clipping(with, model);
  }
  const plan::Plan plan = plan::make_plan(workload, shards, {.seconds = options.seconds},
                                          [](const std::string& line) { spdlog::info("{}", line); });
  const std::string json = plan::to_json(plan).dump(2) + "\n";
  if (!options.job.report.empty()) write_file(options.job.report, json);
  flush_standard_error();
  fmt::print("{}", options.json ? json : plan::to_text(plan));
  return 0;
}

}  // namespace embers
