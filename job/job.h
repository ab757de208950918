#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job/categorical.h"
#include "job/feature_schema.h"
#include "schema/table_spec.h"

namespace embers::job {

// A job file as it travels: the master sends it to workers and owners, who parse it again.
struct JobText {
  std::string path;                    // for messages (file:line)
  std::string text;                    // TOML
  std::vector<std::string> overrides;  // "a.b=c", applied in order; c is TOML, or a bare string
};

enum class ColumnType : uint8_t { kInt, kFloat, kString, kLabel, kIgnore };

struct Column {
  std::string name;
  ColumnType type = ColumnType::kString;
  std::string separator;              // one column, several values: what divides them; "" for one value
  std::vector<std::string> positive;  // kLabel: texts that mean 1 ...
  std::vector<std::string> negative;  // ... and 0; empty beside `positive`: every other text is 0. Both
                                      // empty: the column's number is the label
};

enum class Transform : uint8_t { kNone, kStandardize, kMinMax, kLog1p };

// What a model is given of a column; or, where a model itself declares one (see derive.h), of another
// feature.
struct Feature {
  std::string name;
  std::string column;  // "" for a crossed feature
  bool categorical = true;
  KeyKind key_kind = KeyKind::kBytes;      // categorical; of the ids: kInt64 unless they are raw texts
  Transform transform = Transform::kNone;  // numeric
  // numeric: (x - a) / b, that is mean and std for standardize, min and max - min for minmax. log1p takes
  // max(x, 0).
  double a = 0, b = 1;
  std::string missing_key;       // categorical: id used for a missing value ...
  bool has_missing_key = false;  // ... or, without one, no id at all
  Categorical ids;               // categorical: how values become ids
  std::vector<Feature> crossed;  // of a crossed feature: its inputs, themselves not crossed
  std::string weights;           // categorical: float column with a weight for each value; "" for none
  // numeric, bucketized: stands for a missing value, before the transform. A job that gives none: 0, the mean
  // for standardize.
  double missing_number = 0;
};

// What of the features makes up the input of a model with an InputLayer, and how: the dense columns of
// tf.feature_column, see model/columns/feature_column.h. The defaults are TensorFlow's.
struct InputColumn {
  enum class Kind : uint8_t { kNumeric, kEmbedding, kIndicator, kSharedEmbedding };
  std::string name;  // of the entry
  Kind kind = Kind::kEmbedding;
  std::vector<std::string> features;  // one; several that share a table
  // embeddings
  int64_t dimension = 0;
  std::string combiner = "mean";  // or sum, sqrtn
  std::optional<InitializerSpec> initializer;
  double max_norm = 0;     // 0: none
  bool do_fusion = false;  // changes nothing: all columns are fused
  std::string table;  // kSharedEmbedding: shared_embedding_collection_name; "": made of the features' names
};

struct DataSection {
  std::string dir = ".";
  std::vector<std::string> train, test;  // file names or globs, relative to dir
  std::string format = "csv";            // csv | tsv | criteo
  char separator = ',';
  bool header = false;
  bool trim = true;
  std::string comment;                   // lines that begin with this are no records; "" for none
  std::vector<std::string> missing{""};  // texts that mean "no value"
  std::vector<Column> columns;
  bool skip_bad_rows = false;  // on_bad_row = "error" | "skip"
  bool shuffle = true;
  uint32_t block_records = 4096;  // unit of the permutation
};

// Per-table changes, matched by glob against table names; later entries win.
struct TableOverride {
  std::string match;
  std::optional<uint32_t> dim;
  std::optional<InitializerSpec> initializer;
  std::optional<UpdateRuleSpec> optimizer;  // replaces the job's, schedule and clipping included
  std::optional<ConstraintSpec> constraint;
  std::optional<double> learning_rate;  // changes only this
  std::optional<NumberType> dtype;
  std::optional<Rounding> rounding;

  bool matches(const std::string& table) const;
};

enum class Mode : uint8_t { kAsync, kSync, kBounded };
enum class Reduction : uint8_t { kMean, kSum };

struct Job {
  JobText source;
  struct {
    std::string name = "job";
    uint64_t seed = 1;
    double heartbeat_timeout = 10;  // seconds without a sign of life before a peer is given up on
    double worker_timeout = 60;     // seconds that a job without any worker waits for one
  } job;
  struct {
    std::string name;       // wide_deep | deepfm | dlrm, or the name a library's factory is asked for
    std::string library;    // path of a shared library with the model, or ""
    nlohmann::json params;  // every other key of [model], for the model itself
  } model;
  DataSection data;
  std::vector<Feature> features;     // in order of the file
  std::vector<InputColumn> columns;  // [columns], in order of the file; empty: the model takes all features
  UpdateRuleSpec optimizer;
  struct {
    Mode mode = Mode::kAsync;
    Reduction reduction = Reduction::kMean;
    uint32_t batch_size = 64;
    uint32_t epochs = 1;
    uint32_t workers = 1;
    uint32_t grads_to_wait = 1;
    uint32_t prefetch = 2;               // minibatches in a worker's pipeline beyond the one that trains
    uint32_t threads = 1;                // threads of every operator of a trainer
    bool skip_bad_gradients = false;     // on_bad_gradient = "error" | "skip"
    uint32_t minibatches_per_lease = 8;  // async and bounded; sync leases one at a time
    uint32_t staleness_bound = 4;        // bounded: clocks that a worker may be ahead of the slowest
    bool staleness_modulation = false;   // divide a push's learning rate by its staleness
    uint32_t get_model_steps = 1;  // minibatches of a worker from one pull of the dense model to the next
    uint32_t cache_rows = 0;       // that a worker keeps of each embedding table; 0: none
    uint32_t cache_staleness = 4;  // minibatches of the worker for which it uses them again
  } training;
  struct {
    std::string backend = "memory";    // memory | memcached | redis
    std::vector<std::string> servers;  // "host:port" each; none: the master starts own ones
    uint32_t own_servers = 1;          // that it starts if it is given none
    uint32_t memory_mb = 1024;         // of each of the job's own servers
    uint32_t server_threads = 2;       // of each of the job's own servers
    double server_timeout = 10;        // seconds that a server may take to answer
    std::string journal;               // directory for owners' write-backs, or ""
    double owner_timeout = 60;  // seconds that a job with a journal waits for a lost owner; 0: not at all
    uint32_t shards = 1;
    uint32_t buckets = 4096;
    NumberType dtype = NumberType::kFloat32;       // that rows are kept as
    Rounding rounding = Rounding::kStochastic;     // of changed rows that are halves
    NumberType wire_dtype = NumberType::kFloat32;  // that rows and their gradients are sent as
    std::vector<TableOverride> tables;
  } storage;

  FeatureSchema feature_schema() const;
  // Where the value at this path of keys stands, for messages: "job.toml:12", or "--set a.b=c"; of its
  // section, or of the file, where there is none. Parses the text again: for errors only.
  std::string place(const std::vector<std::string>& keys) const;
  // The spec of an embedding table after the job's optimizer and [storage.tables] had their say. `dim` is
  // only checked: a model asks dim_for() first.
  void apply_overrides(TableSpec& table) const;
  // Dim that [storage.tables] gives a table, else `otherwise`.
  uint32_t dim_for(const std::string& table, uint32_t otherwise) const;
};

// Reads the file; kInvalid naming it if it cannot be read.
JobText read_job(const std::string& path, std::vector<std::string> overrides);

// Every value that the job gives, as "section.key = value", but for what may differ between processes of one
// job: where files are, and how a worker uses its host.
std::vector<std::string> settings(const JobText& text);

// Parses and validates everything that needs no data: syntax, unknown keys (nearest known one suggested),
// types, ranges, columns and features that refer to each other. Errors are kInvalid with "file:line: ...".
// Values of [model] other than name and library are the model's to judge.
Job parse_job(JobText text);

// Keys by section, in the order in which they are read. Entries of [features], of [columns], of data.columns
// and of [storage.tables] have a section in common each: "features", "columns", "data.columns" and
// "storage.tables".
using KnownKeys = std::map<std::string, std::vector<std::string>>;
// Every key that parse_job() knows, from the readers themselves. Beside them there are the parameters of
// models, update rules, initializers, constraints and schedules.
KnownKeys known_keys();

}  // namespace embers::job
