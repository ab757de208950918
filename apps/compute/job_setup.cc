#include "apps/compute/job_setup.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "apps/process/runtime.h"
#include "base/files/output_file.h"
#include "base/random_number.h"
#include "base/suggest.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/checkpoint/checkpoint_paths.h"
#include "storage/external/key_value_server.h"
#include "storage/initializers/initializer.h"
#include "storage/rows/constraint.h"
#include "storage/update_rules/update_rule.h"

namespace embers {
namespace {

std::string toml_string(const std::string& text) { return nlohmann::json(text).dump(); }

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// An owner sees only its share of a gradient; norms are known only in a commit, in which all owners take
// part. And a worker's own copy of the dense parameters would not clip as owners do.
void check_clipping(const job::Job& job, const ModelSpec& model) {
  for (const TableSpec& table : model.tables) {
    const storage::Clipping clipping = storage::UpdateRule::make(table.update_rule)->clipping();
    if (job.training.get_model_steps > 1 && table.name == kDenseTable &&
        (clipping.needs_norms() || clipping.value > 0))
      fail(ErrorCode::kInvalid,
           "{}: clipping does not work with get_model_steps above 1: leave out one of them",
           job.place({"training", "get_model_steps"}));
  }
  const bool one_owner = job.storage.shards == 1 || !model.has_embeddings();
  if (job.training.mode == job::Mode::kSync || one_owner) return;
  for (const TableSpec& table : model.tables)
    if (storage::UpdateRule::make(table.update_rule)->clipping().needs_norms())
      fail(ErrorCode::kInvalid,
           "{}: clipping by norm (table '{}') needs the whole gradient, which no shard of an async job sees: "
           "use "
           "clipvalue, training.mode = \"sync\", or storage.shards = 1",
           job.place({"optimizer"}), table.name);
}

// Checks every initializer and update rule of the job, and that each entry of [storage.tables] matches a
// table.
void check_storage(const job::Job& job, const ModelSpec& model) {
  at_place(job.place({"optimizer", "name"}), [&] { storage::UpdateRule::make(job.optimizer); });
  at_place(job.place({"storage", "servers"}), [&] {
    for (const std::string& server : job.storage.servers) storage::parse_server(server);
  });
  for (const job::TableOverride& entry : job.storage.tables) {
    const auto place = [&](const char* key) { return job.place({"storage", "tables", entry.match, key}); };
    std::vector<std::string> names;
    for (const TableSpec& table : model.tables) names.push_back(table.name);
    const auto table = std::find_if(model.tables.begin(), model.tables.end(),
                                    [&](const TableSpec& t) { return entry.matches(t.name); });
    if (table == model.tables.end())
      fail(ErrorCode::kInvalid, "{}: [storage.tables.\"{}\"] matches no table of the model{}", place(""),
           entry.match, suggestion(entry.match, names));
    if (entry.optimizer) at_place(place("optimizer"), [&] { storage::UpdateRule::make(*entry.optimizer); });
    if (entry.constraint)
      at_place(place("constraint"), [&] { storage::Constraint::make(*entry.constraint); });
    if (entry.initializer)
      at_place(place("initializer"), [&] { storage::Initializer::make(job.job.seed, *table); });
    if (entry.learning_rate)
      at_place(place("learning_rate"), [&] { storage::UpdateRule::make(table->update_rule); });
  }
  for (const TableSpec& table : model.tables)
    at_place(job.place({"model", "name"}), [&] {
      storage::Initializer::make(job.job.seed, table);
      storage::UpdateRule::make(table.update_rule);
      storage::Constraint::make(table.constraint);
    });
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
  job::Job job = job::parse_job(job::read_job(options.job, overrides));
  job.data.dir = absolute(job.data.dir);
  const auto beside = std::filesystem::path(options.job).parent_path() / job.model.library;
  for (const std::string& library : {job.model.library, beside.string()})
    if (std::filesystem::is_regular_file(library)) {
      job.model.library = absolute(library);
      break;
    }
  check_files(options);
  return job;
}

JobSetup set_up(job::Job job, Purpose purpose, const std::string& index_dir) {
  JobSetup setup;
  setup.index_dir = index_dir;
  setup.runner = ModelRunner::make(job);
  check_storage(job, setup.runner->spec());
  if (purpose == Purpose::kTrain) check_clipping(job, setup.runner->spec());
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
  config->model = setup.runner->spec();
  config->dense = std::make_shared<FloatBuffer>(dense_values(setup.runner->model(), config->model, false));
  config->buffers = std::make_shared<FloatBuffer>(dense_values(setup.runner->model(), config->model, true));
  config->workers = setup.job.training.workers;
  // A model without embedding layers gets one owner inside the master.
  config->shards = config->model.has_embeddings() ? setup.job.storage.shards : 1;
  config->boot_id = boot_id();
  if (setup.train) {
    config->train_minibatches = setup.train->minibatches();
    config->train_records = setup.train->records();
    config->train_signature = setup.train->signature();
  }
  if (setup.test) config->test_minibatches = setup.test->minibatches();
  config->settings = agreed_settings(setup);
  config->index_dir = setup.index_dir;
  config->output = options.output;
  config->resume = options.resume;
  config->save_every = options.save_every;
  config->dump_rows = options.dump_rows;
  return config;
}

}  // namespace embers
