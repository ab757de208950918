#include "job/job.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/errors.h"
#include "base/suggest.h"
#include "job/document/section.h"
#include "job/features/columns_section.h"
#include "job/features/features_section.h"
#include "job/sections/specs.h"

namespace embers::job {
namespace {

const std::vector<std::string>& section_names() {
  static const std::vector<std::string> names = {"job",     "model",     "data",     "features",
                                                 "columns", "optimizer", "training", "storage"};
  return names;
}

void check_sections(const toml::table& root) {
  for (const auto& [key, node] : in_file_order(root)) {
    const std::string name(key->str());
    const auto& names = section_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      fail(ErrorCode::kInvalid, "{}: unknown section '{}'{}", where(key->source()), name,
           suggestion(name, names));
    }
    as_section(*node, fmt::format("'{}'", name));
  }
}

// Only the memory backend keeps halves.
void check_dtype(const Job& job, NumberType type, const std::vector<std::string>& key) {
  if (type == NumberType::kFloat32 || job.storage.backend == "memory") return;
  fail(ErrorCode::kInvalid,
       "{}: only backend 'memory' keeps rows as {}; {} holds float32 (storage.wire_dtype works with all "
       "backends)",
       job.place(key), name(type), job.storage.backend);
}

void check_dtypes(const Job& job) {
  check_dtype(job, job.storage.dtype, {"storage", "dtype"});
  for (const TableOverride& entry : job.storage.tables)
    if (entry.dtype) check_dtype(job, *entry.dtype, {"storage", "tables", entry.match, "dtype"});
}

// The entry that decides a table's dim: the last one that matches and has a dim; nullptr if there is none.
const TableOverride* dim_entry(const std::vector<TableOverride>& entries, const std::string& table) {
  const TableOverride* last = nullptr;
  for (const TableOverride& entry : entries) {
    if (entry.dim && entry.matches(table)) last = &entry;
  }
  return last;
}

// What else comes with the first worker of a job without [model] and [data].
void check_without_model(const toml::table& root) {
  for (const char* const name : {"features", "columns"})
    if (const toml::node* const section = root.get(name))
      fail(ErrorCode::kInvalid, "{}: section [{}] needs [model] and [data]", where(section->source()), name);
  const toml::node* const training = root.get("training");
  if (training == nullptr) return;
  for (const char* const key : {"batch_size", "epochs"})
    if (const toml::node* const found = training->as_table()->get(key))
      fail(ErrorCode::kInvalid,
           "{}: [training] '{}' comes with the first worker of a job without [model] and [data]: leave it "
           "out",
           where(found->source()), key);
}

// What only models in C++ have.
void check_python_model(const Job& job) {
  if (job.model.python.empty()) return;
  if (!job.columns.empty())
    fail(ErrorCode::kInvalid,
         "{}: [columns] are for models in C++ with an input layer; the Python model {} takes features",
         job.place({"columns"}), job.model.python);
  if (job.training.get_model_steps > 1)
    fail(ErrorCode::kInvalid,
         "{}: [training] 'get_model_steps' above 1 is for models in C++: the Python model {} pulls its dense "
         "parameters for each minibatch",
         job.place({"training", "get_model_steps"}), job.model.python);
}

Job parse(JobText text, KnownKeys* known_keys) {
  const toml::table root = parse_document(text);
  check_sections(root);
  Job job;
  job.source = std::move(text);
  const auto section = [&](const char* name) -> const toml::table* {
    const toml::node* const node = root.get(name);
    return node == nullptr ? nullptr : node->as_table();
  };
  const auto open = [&](const char* name, const toml::table& table) {
    return Section(table, fmt::format("[{}]", name), name, known_keys);
  };
  job.from_worker = section("model") == nullptr && section("data") == nullptr;
  if (job.from_worker) check_without_model(root);
  for (const char* const name : {"model", "data"}) {
    if (section(name) == nullptr && !job.from_worker) {
      fail(ErrorCode::kInvalid,
           "{}: section [{}] is missing; without [model] and [data], both come with the job's first worker",
           job.source.path, name);
    }
  }
  // Reads a section, if it is there, into its part of the job.
  const auto fill = [&](const char* name, auto& values) {
    if (const auto* table = section(name)) {
      Section reader = open(name, *table);
      read(reader, values);
    }
  };
  fill("job", job.job);
  fill("model", job.model);
  fill("data", job.data);
  job.features = read_features(section("features"), job.data, known_keys);
  if (const auto* table = section("columns"))
    job.columns = read_input_columns(*table, job.features, known_keys);
  if (const auto* table = section("optimizer"))
    job.optimizer = read_spec<UpdateRuleSpec>(open("optimizer", *table));
  fill("training", job.training);
  fill("storage", job.storage);
  check_dtypes(job);
  check_python_model(job);
  return job;
}

// A job that makes the readers ask for every key that they know: it has each kind of feature, transform and
// column.
constexpr char kSample[] = R"(
[job]
[model]
name = "any"
[data]
train = "any"
columns = [ { name = "int", type = "int" }, { name = "float", type = "float" }, { name = "text" } ]
[features]
raw         = { column = "text" }
none        = { column = "float" }
standardize = { column = "float", transform = "standardize", mean = 0, std = 1 }
minmax      = { column = "float", transform = "minmax", min = 0, max = 1 }
identity    = { column = "int", as = "identity", num_buckets = 1 }
hashed      = { column = "text", as = "hash_bucket", hash_bucket_size = 1 }
list        = { column = "text", as = "vocabulary", vocabulary_list = ["any"] }
file        = { column = "text", as = "vocabulary", vocabulary_file = "any" }
bucketized  = { column = "float", as = "bucketized", boundaries = [0] }
crossed     = { as = "crossed", keys = ["text", "int"], hash_bucket_size = 1 }
[columns]
none        = { as = "numeric" }
raw         = { as = "embedding", dimension = 1, initializer = { name = "any" } }
hashed      = { as = "indicator" }
shared      = { as = "shared_embedding", features = ["raw", "hashed"], dimension = 1 }
[optimizer]
schedule = { name = "any" }
[training]
[storage]
tables.any = { optimizer = { name = "any", schedule = { name = "any" } }, initializer = { name = "any" }, constraint = { name = "any" } }
)";

}  // namespace

JobText read_job(const std::string& path, std::vector<std::string> overrides) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // A directory can be opened; reading it fails only here.
  if (!file || (file.peek() != std::ifstream::traits_type::eof() && !(text << file.rdbuf())) || file.bad()) {
    fail(ErrorCode::kInvalid, "cannot read job file '{}'; give the path of a TOML file", path);
  }
  return {path, text.str(), std::move(overrides)};
}

Job parse_job(JobText text) { return parse(std::move(text), nullptr); }

KnownKeys known_keys() {
  KnownKeys keys;
  parse({"sample", kSample, {}}, &keys);
  return keys;
}

std::vector<std::string> settings(const JobText& text) {
  static const std::set<std::string> own = {"data.dir",          "model.library",    "model.python_path",
                                            "training.prefetch", "training.threads", "storage.servers"};
  std::vector<std::string> lines;
  for (const auto& [section, node] : parse_document(text)) {
    for (const auto& [key, value] : *node.as_table()) {
      const std::string name = fmt::format("{}.{}", section.str(), key.str());
      if (!own.contains(name)) lines.push_back(fmt::format("{} = {}", name, to_json(value).dump()));
    }
  }
  return lines;
}

std::string Job::place(const std::vector<std::string>& keys) const {
  const toml::table root = parse_document(source);
  const toml::node* node = &root;
  for (const std::string& key : keys) {
    const toml::table* const table = node->as_table();
    const toml::node* const next = table == nullptr ? nullptr : table->get(key);
    if (next == nullptr) break;
    node = next;
  }
  return node == &root ? source.path : where(node->source());
}

bool Job::gives(const std::string& section) const { return parse_document(source).contains(section); }

FeatureSchema Job::feature_schema() const {
  FeatureSchema schema;
  for (const Feature& feature : features) {
    if (feature.categorical) {
      schema.categorical.push_back(
          {feature.name, feature.key_kind, feature.ids.buckets(), !feature.weights.empty()});
    } else {
      schema.numeric.push_back(feature.name);
    }
  }
  return schema;
}

int FeatureSchema::categorical_index(const std::string& name) const {
  for (size_t i = 0; i < categorical.size(); ++i) {
    if (categorical[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

uint32_t Job::dim_for(const std::string& table, uint32_t otherwise) const {
  const TableOverride* const entry = dim_entry(storage.tables, table);
  return entry == nullptr ? otherwise : *entry->dim;
}

void Job::apply_overrides(TableSpec& table, const UpdateRuleSpec& update_rule) const {
  table.update_rule = update_rule;
  // What a program says of a table is another one than the default.
  if (table.number_type == NumberType::kFloat32) table.number_type = storage.dtype;
  table.rounding = storage.rounding;
  for (const TableOverride& entry : storage.tables) {
    if (!entry.matches(table.name)) continue;
    if (entry.initializer) table.initializer = *entry.initializer;
    if (entry.optimizer) table.update_rule = *entry.optimizer;
    if (entry.constraint) table.constraint = *entry.constraint;
    if (entry.dtype) table.number_type = *entry.dtype;
    if (entry.rounding) table.rounding = *entry.rounding;
    if (entry.partition) table.partition = *entry.partition;
    if (!entry.learning_rate) continue;
    table.update_rule.params["learning_rate"] = *entry.learning_rate;
    table.update_rule.schedule.params.erase("initial_learning_rate");
  }
  const TableOverride* const entry = dim_entry(storage.tables, table.name);
  if (entry != nullptr && *entry->dim != table.dim) {
    fail(ErrorCode::kInvalid,
         "{}: [storage.tables.\"{}\"] gives table '{}' dim {}, but the model made it with dim {}",
         place({"storage", "tables", entry->match, "dim"}), entry->match, table.name, *entry->dim, table.dim);
  }
}

void keep_rows_in_memory(Job& job) {
  job.storage.backend = "memory";
  job.storage.servers.clear();
  job.storage.journal.clear();
}

}  // namespace embers::job
