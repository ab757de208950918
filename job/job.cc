#include "job/job.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/errors.h"
#include "base/suggest.h"
#include "job/job_parts.h"

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

constexpr double kMinHeartbeat =
    0.1;  // four beats go into it; a busy machine takes longer for one than 25 ms
constexpr double kMaxTimeout = 31'536'000;  // a year
constexpr int64_t kMaxThreads = 4096;

void read_job_section(Section section, Job& job) {
  section.read("name", job.job.name);
  section.read_count("seed", job.job.seed, 0, std::numeric_limits<int64_t>::max());
  section.read_positive("heartbeat_timeout", job.job.heartbeat_timeout);
  if (job.job.heartbeat_timeout < kMinHeartbeat) {
    section.fail_at("heartbeat_timeout",
                    fmt::format("'heartbeat_timeout' must be at least {} s", kMinHeartbeat));
  }
  section.read_positive("worker_timeout", job.job.worker_timeout);
  for (const auto& [key, value] : {std::pair("heartbeat_timeout", job.job.heartbeat_timeout),
                                   std::pair("worker_timeout", job.job.worker_timeout)}) {
    if (value > kMaxTimeout) section.fail_at(key, fmt::format("'{}' must be at most {} s", key, kMaxTimeout));
  }
  section.done();
}

void read_model(const toml::table& table, Job& job, KnownKeys* known_keys) {
  Section section(table, "[model]", "model", known_keys);
  section.read("name", job.model.name);
  section.read("library", job.model.library);
  if (job.model.name.empty() && job.model.library.empty()) {
    section.fail_at("name", "needs a 'name': the model to train");
  }
  job.model.params = to_json(table);
  job.model.params.erase("name");
  job.model.params.erase("library");
}

// What would break what sync mode promises, or can have no effect there.
void check_sync(const Section& section, const Job& job) {
  if (job.training.get_model_steps > 1)
    section.fail_at("get_model_steps",
                    fmt::format("'get_model_steps' is {}, but in sync mode every gradient is computed on the "
                                "current version: leave it at 1, or choose mode \"async\" or \"bounded\"",
                                job.training.get_model_steps));
  if (job.training.cache_rows > 0)
    section.fail_at("cache_rows",
                    fmt::format("'cache_rows' is {}, but in sync mode every row is read at the current "
                                "version: leave it out, or choose mode \"async\" or \"bounded\"",
                                job.training.cache_rows));
  if (job.training.staleness_modulation)
    section.fail_at(
        "staleness_modulation",
        "'staleness_modulation' has no meaning in sync mode, where no gradient is stale: leave it "
        "out, or choose mode \"async\" or \"bounded\"");
}

void read_training(Section section, Job& job) {
  auto& training = job.training;
  section.read_choice("mode", training.mode,
                      {{"async", Mode::kAsync}, {"sync", Mode::kSync}, {"bounded", Mode::kBounded}});
  section.read_choice("reduction", training.reduction,
                      {{"mean", Reduction::kMean}, {"sum", Reduction::kSum}});
  section.read_count("batch_size", training.batch_size, 1);
  section.read_count("epochs", training.epochs, 1);
  section.read_count("workers", training.workers, 1);
  section.read_count("grads_to_wait", training.grads_to_wait, 1);
  section.read_count("prefetch", training.prefetch, 0);
  section.read_count("threads", training.threads, 1, kMaxThreads);
  section.read_count("minibatches_per_lease", training.minibatches_per_lease, 1);
  section.read_count("staleness_bound", training.staleness_bound, 0);
  section.read("staleness_modulation", training.staleness_modulation);
  section.read_count("get_model_steps", training.get_model_steps, 1);
  section.read_count("cache_rows", training.cache_rows, 0);
  section.read_count("cache_staleness", training.cache_staleness, 0);
  section.read_choice("on_bad_gradient", training.skip_bad_gradients, {{"error", false}, {"skip", true}});
  if (training.mode == Mode::kSync) check_sync(section, job);
  section.done();
}

constexpr int64_t kMaxShards = 65535;  // numbers of shards are 16 bits wide in the owner map
constexpr int64_t kMaxBuckets = 1 << 20;
constexpr int64_t kFewestServerMb = 64;  // memcached's least that works for rows of any size
constexpr int64_t kMostServerMb = 1 << 24;
constexpr int64_t kMostOwnServers = 256;

void read_storage(Section section, Job& job) {
  auto& storage = job.storage;
  static const std::vector<std::string> backends = {"memory", "memcached", "redis"};
  section.read("backend", storage.backend);
  if (std::find(backends.begin(), backends.end(), storage.backend) == backends.end()) {
    section.fail_at("backend", fmt::format("backend '{}' is not known{}", storage.backend,
                                           suggestion(storage.backend, backends)));
  }
  section.read("servers", storage.servers);
  section.read_count("own_servers", storage.own_servers, 1, kMostOwnServers);
  section.read_count("memory_mb", storage.memory_mb, kFewestServerMb, kMostServerMb);
  section.read_count("server_threads", storage.server_threads, 1, kMaxThreads);
  section.read_positive("server_timeout", storage.server_timeout);
  section.read("journal", storage.journal);
  section.read("owner_timeout", storage.owner_timeout);
  if (!(storage.owner_timeout >= 0))
    section.fail_at("owner_timeout", "'owner_timeout' must be a number of seconds, 0 for none");
  section.read_count("shards", storage.shards, 1, kMaxShards);
  section.read_count("buckets", storage.buckets, 1, kMaxBuckets);
  read_number_type(section, "dtype", storage.dtype);
  read_number_type(section, "wire_dtype", storage.wire_dtype);
  read_rounding(section, storage.rounding);
  if (storage.shards > storage.buckets) {
    section.fail_at("shards", fmt::format("'shards' is {}, more than the {} buckets to spread over them",
                                          storage.shards, storage.buckets));
  }
  if (const toml::node* const tables = section.find("tables")) {
    storage.tables = read_table_overrides(section, as_section(*tables, "[storage.tables]"));
  }
  section.done();
  check_dtypes(job);
}

}  // namespace

const toml::table& as_section(const toml::node& node, const std::string& title) {
  if (const toml::table* const table = node.as_table()) return *table;
  fail(ErrorCode::kInvalid, "{}: {} must be a section", where(node.source()), title);
}

JobText read_job(const std::string& path, std::vector<std::string> overrides) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // Reading a directory opens, and fails only here.
  if (!file || (file.peek() != std::ifstream::traits_type::eof() && !(text << file.rdbuf())) || file.bad()) {
    fail(ErrorCode::kInvalid, "cannot read job file '{}'; give the path of a TOML file", path);
  }
  return {path, text.str(), std::move(overrides)};
}

namespace {

Job parse(JobText text, KnownKeys* known_keys) {
  const toml::table root = parse_document(text);
  check_sections(root);
  Job job;
  job.source = std::move(text);
  const auto section = [&](const char* name) -> const toml::table* {
    const toml::node* const node = root.get(name);
    return node == nullptr ? nullptr : node->as_table();
  };
  const auto read = [&](const char* name, const toml::table& table) {
    return Section(table, fmt::format("[{}]", name), name, known_keys);
  };
  for (const char* const name : {"model", "data"}) {
    if (section(name) == nullptr) {
      fail(ErrorCode::kInvalid, "{}: section [{}] is missing", job.source.path, name);
    }
  }
  if (const auto* table = section("job")) read_job_section(read("job", *table), job);
  read_model(*section("model"), job, known_keys);
  Section data = read("data", *section("data"));
  read_data(data, job.data);
  job.features = read_features(section("features"), job.data, known_keys);
  if (const auto* table = section("columns"))
    job.columns = read_input_columns(*table, job.features, known_keys);
  if (const auto* table = section("optimizer")) {
    job.optimizer = read_spec<UpdateRuleSpec>(read("optimizer", *table));
  }
  if (const auto* table = section("training")) read_training(read("training", *table), job);
  if (const auto* table = section("storage")) read_storage(read("storage", *table), job);
  return job;
}

// A job that leads the readers to every key that they know: each kind of feature, transform and column is
// there.
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

Job parse_job(JobText text) { return parse(std::move(text), nullptr); }

KnownKeys known_keys() {
  KnownKeys keys;
  parse({"sample", kSample, {}}, &keys);
  return keys;
}

std::vector<std::string> settings(const JobText& text) {
  static const std::set<std::string> own = {"data.dir", "model.library", "training.prefetch",
                                            "training.threads", "storage.servers"};
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

}  // namespace embers::job
