#include "apps/compute/job_setup.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "apps/process/runtime.h"
#include "base/files/output_file.h"
#include "base/random_number.h"
#include "master/model_checks.h"
#include "master/partitions.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/checkpoint/checkpoint_paths.h"

namespace embers {
namespace {

std::string toml_string(const std::string& text) { return nlohmann::json(text).dump(); }

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// Paths that cannot be read or written should be found before hours of training, not after.
void check_files(const JobOptions& options) {
  if (!options.resume.empty()) storage::CheckpointReader::open(options.resume);
  for (const std::string& file : {options.report, options.dump_rows})
    if (!file.empty()) check_file(file);
  if (!options.output.empty()) storage::check_checkpoint(storage::checkpoint_paths(options.output));
}

}  // namespace

std::string index_dir_of(const std::string& output) {
  if (output.empty()) return "";
  std::filesystem::path path = absolute(output);
  if (path.filename().empty()) path = path.parent_path();
  return path.string() + ".index";
}

job::Job load_job(const JobOptions& options, std::vector<std::string> more_overrides) {
  std::vector<std::string> overrides = options.set;
  overrides.insert(overrides.end(), more_overrides.begin(), more_overrides.end());
  job::Job job = job::parse_job(options.job.empty() ? job::JobText{"(no job file)", "", overrides}
                                                    : job::read_job(options.job, overrides));
  job.data.dir = absolute(job.data.dir);
  const auto folder = std::filesystem::path(options.job).parent_path();
  const auto beside = folder / job.model.library;
  for (const std::string& library : {job.model.library, beside.string()})
    if (std::filesystem::is_regular_file(library)) {
      job.model.library = absolute(library);
      break;
    }
  if (!job.model.python.empty()) {
    const std::filesystem::path given = job.model.python_path;
    const std::filesystem::path place = folder.empty() ? "." : folder;
    if (given.empty())
      job.model.python_path = absolute(place.string());
    else
      job.model.python_path = absolute(std::filesystem::is_directory(given) ? given : place / given);
    if (job.model.python_path.ends_with('/')) job.model.python_path.pop_back();
  }
  check_files(options);
  return job;
}

JobSetup set_up(job::Job job, Purpose purpose, const std::string& index_dir) {
  if (job.from_worker)
    fail(ErrorCode::kInvalid,
         "{}: sections [model] and [data] are missing; without them, both come with the first worker that "
         "joins, a program of yours, and only embers master and embers launch run the job",
         job.source.path);
  JobSetup setup;
  setup.index_dir = index_dir;
  if (job.model.python.empty()) {
    setup.runner = ModelRunner::make(job);
    check_model(job, setup.runner->spec());
    if (purpose == Purpose::kTrain) check_clipping(job, setup.runner->spec());
  } else {
    check_job(job);
  }
  if (purpose == Purpose::kTrain) {
    setup.train = data::Dataset::open(job, data::Split::kTrain, index_dir);
    if (setup.train->records() == 0)
      fail(ErrorCode::kInvalid, "{}: the training files hold no records", job.source.path);
  }
  if (!job.data.test.empty()) setup.test = data::Dataset::open(job, data::Split::kTest, index_dir);
  if (purpose == Purpose::kEvaluate && (!setup.test || setup.test->records() == 0))
    fail(ErrorCode::kInvalid, "{}: there are no records to evaluate: set data.test or give --data",
         job.source.path);
  std::string warning;
  numeric_settings(job.training.threads, &warning);
  if (!warning.empty()) spdlog::warn("{}", warning);
  setup.job = std::move(job);
  return setup;
}

std::unique_ptr<const DirectoryLock> lock_output(const JobOptions& options) {
  return options.output.empty() ? nullptr : DirectoryLock::take(options.output);
}

std::vector<std::string> agreed_settings(const JobSetup& setup) {
  std::vector<std::string> lines = job::settings(setup.job.source);
  for (const auto& dataset : {setup.train, setup.test}) {
    if (!dataset) continue;
    const auto more = dataset->signature();
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

std::shared_ptr<MasterConfig> master_config(const JobSetup& setup, const JobOptions& options) {
  auto config = std::make_shared<MasterConfig>();
  config->job = setup.job;
  // What processes started elsewhere are told.
  auto& overrides = config->job.source.overrides;
  overrides.push_back("data.dir=" + toml_string(setup.job.data.dir));
  if (!setup.job.model.library.empty())
    overrides.push_back("model.library=" + toml_string(setup.job.model.library));
  config->run = random_number();
  config->shards = setup.job.storage.shards;
  if (setup.runner) {
    config->model = setup.runner->spec();
    for (const std::string& line :
         settle_partitions(config->model, scale_of(setup.job, setup.job.training.batch_size)))
      spdlog::info("{}", line);
    config->dense = std::make_shared<FloatBuffer>(dense_values(setup.runner->model(), config->model, false));
    config->buffers = std::make_shared<FloatBuffer>(dense_values(setup.runner->model(), config->model, true));
    // A model without embedding layers gets one owner inside the master.
    if (!config->model.has_embeddings()) config->shards = 1;
  } else {
    overrides.push_back("model.python_path=" + toml_string(setup.job.model.python_path));
    if (!options.resume.empty())
      config->saved_model = signature(storage::CheckpointReader::open(options.resume)->model());
  }
  config->workers = setup.job.training.workers;
  config->boot_id = boot_id();
  if (setup.train) {
    config->train_minibatches = setup.train->minibatches();
    config->train_records = setup.train->records();
    config->train_signature = setup.train->signature();
  }
  if (setup.test) config->test_minibatches = setup.test->minibatches();
  config->settings = agreed_settings(setup);
  config->index_dir = setup.index_dir;
  set_files(*config, options);
  return config;
}

void set_files(MasterConfig& config, const JobOptions& options) {
  config.output = options.output;
  config.resume = options.resume;
  config.save_every = options.save_every;
  config.dump_rows = options.dump_rows;
}

}  // namespace embers
