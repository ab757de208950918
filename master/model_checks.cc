#include "master/model_checks.h"

#include <algorithm>

#include "base/host.h"
#include "base/random_number.h"
#include "base/suggest.h"
#include "master/master.h"
#include "master/partitions.h"
#include "storage/external/key_value_server.h"
#include "storage/initializers/initializer.h"
#include "storage/rows/constraint.h"
#include "storage/update_rules/update_rule.h"

namespace embers {

void check_job(const job::Job& job) {
  at_place(job.place({"optimizer", "name"}), [&] { storage::UpdateRule::make(job.optimizer); });
  at_place(job.place({"storage", "servers"}), [&] {
    for (const std::string& server : job.storage.servers) storage::parse_server(server);
  });
}

namespace {

// The columns of a table can be spread over owners, if the job file, or else a worker, says so.
void check_partition(const job::Job& job, const TableSpec& table) {
  ModelSpec one;
  one.tables.push_back(table);
  for (auto entry = job.storage.tables.rbegin(); entry != job.storage.tables.rend(); ++entry)
    if (entry->partition && entry->matches(table.name))
      return at_place(job.place({"storage", "tables", entry->match, "partition"}),
                      [&] { settle_partitions(one, {.owners = job.storage.shards}); });
  settle_partitions(one, {.owners = job.storage.shards});
}

}  // namespace

void check_model(const job::Job& job, const ModelSpec& model) {
  check_job(job);
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
    if (job.storage.backend != "memory" && table.number_type != NumberType::kFloat32)
      fail(ErrorCode::kInvalid, "table '{}': only backend 'memory' keeps rows as {}; {} holds float32",
           table.name, name(table.number_type), job.storage.backend);
  for (const TableSpec& table : model.tables)
    at_place(job.from_worker ? fmt::format("table '{}'", table.name)
                             : job.place({"model", job.model.python.empty() ? "name" : "python"}),
             [&] {
               storage::Initializer::make(job.job.seed, table);
               storage::UpdateRule::make(table.update_rule);
               storage::Constraint::make(table.constraint);
             });
  for (const TableSpec& table : model.tables) check_partition(job, table);
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
  const bool one_owner = job.storage.shards == 1 || (!job.model_from_worker() && !model.has_embeddings());
  if (job.training.mode == job::Mode::kSync || one_owner) return;
  for (const TableSpec& table : model.tables)
    if (storage::UpdateRule::make(table.update_rule)->clipping().needs_norms())
      fail(ErrorCode::kInvalid,
           "{}: clipping by norm (table '{}') needs the whole gradient, which no shard of an async job sees: "
           "use "
           "clipvalue, training.mode = \"sync\", or storage.shards = 1",
           job.place({"optimizer"}), table.name);
}

std::vector<std::string> settle_model(const job::Job& job, ModelSpec& model, uint64_t batch_size) {
  for (TableSpec& table : model.tables) {
    const UpdateRuleSpec& rule = table.update_rule.name.empty() ? job.optimizer : table.update_rule;
    if (table.name == kDenseTable) {
      table = dense_table(UpdateRuleSpec(rule));
    } else if (table.name == kBufferTable) {
      table = buffer_table();
    } else {
      if (table.initializer.name.empty()) table.initializer = InitializerSpec();
      job.apply_overrides(table, UpdateRuleSpec(rule));
    }
  }
  check_model(job, model);
  check_clipping(job, model);
  return settle_partitions(model, scale_of(job, batch_size));
}

void without_slots(ModelSpec& model) {
  for (TableSpec& table : model.tables) table.update_rule = {"sgd", {}};
}

std::shared_ptr<MasterConfig> config_without_model(const job::Job& job) {
  check_job(job);
  auto config = std::make_shared<MasterConfig>();
  config->job = job;
  config->run = random_number();
  config->workers = job.training.workers;
  config->shards = job.storage.shards;
  config->boot_id = boot_id();
  config->settings = job::settings(job.source);
  return config;
}

}  // namespace embers
