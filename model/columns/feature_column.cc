#include "model/columns/feature_column.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/suggest.h"

namespace embers {
namespace {

using job::IdKind;

template <class... Args>
[[noreturn]] void bad(const std::string& column, fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::kInvalid, "column '{}': {}", column, fmt::format(format, std::forward<Args>(args)...));
}

CategoricalColumn column_of(IdKind kind, const std::string& key) {
  CategoricalColumn column;
  column.feature.name = column.feature.column = key;
  column.feature.key_kind = KeyKind::kInt64;
  column.feature.ids.kind = kind;
  return column;
}

int64_t positive(const std::string& column, const char* parameter, int64_t value) {
  if (value < 1) bad(column, "{} is {} but must be at least 1", parameter, value);
  return value;
}

CategoricalColumn vocabulary_column(const std::string& key, std::optional<int64_t> default_value,
                                    int64_t num_oov_buckets) {
  if (num_oov_buckets < 0) bad(key, "num_oov_buckets is {} but must not be negative", num_oov_buckets);
  if (num_oov_buckets > 0 && default_value) bad(key, "default_value and num_oov_buckets cannot be combined");
  CategoricalColumn column = column_of(IdKind::kVocabulary, key);
  column.feature.ids.default_value = default_value;
  column.feature.ids.num_oov_buckets = num_oov_buckets;
  return column;
}

// The inputs that a key gives to a cross.
std::vector<job::Feature> inputs_of(const CrossKey& key) {
  if (const auto* const raw = std::get_if<std::string>(&key)) return {column_of(IdKind::kRaw, *raw).feature};
  const job::Feature& feature = std::get<CategoricalColumn>(key).feature;
  if (feature.ids.kind == IdKind::kHashBucket)
    bad(feature.name, "is hashed already, and two hashes collide more often: cross '{}' by its name",
        feature.column);
  if (!feature.weights.empty()) bad(feature.name, "has weights, which a cross cannot take");
  return feature.ids.kind == IdKind::kCrossed ? feature.crossed : std::vector{feature};
}

std::string joined(std::vector<std::string> names, const char* separator) {
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, separator));
}

DenseColumn dense_column(DenseColumn::Kind kind, std::string name, const CategoricalColumn& categorical) {
  DenseColumn column;
  column.kind = kind;
  column.name = std::move(name);
  column.categorical = categorical;
  return column;
}

DenseColumn embedding(const CategoricalColumn& categorical, const std::string& name, const std::string& table,
                      int64_t dimension, const EmbeddingColumnOptions& options) {
  positive(name, "dimension", dimension);
  if (options.combiner == Combiner::kNone) bad(name, "needs a combiner: sum, mean or sqrtn");
  DenseColumn column = dense_column(DenseColumn::Kind::kEmbedding, name, categorical);
  column.table = table;
  column.dimension = dimension;
  column.combiner = options.combiner;
  column.initializer = options.initializer.value_or(InitializerSpec{
      "truncated_normal", {{"mean", 0.0}, {"stddev", 1 / std::sqrt(static_cast<double>(dimension))}}});
  column.max_norm = options.max_norm;
  return column;
}

}  // namespace

CategoricalColumn categorical_column_with_identity(const std::string& key, int64_t num_buckets,
                                                   std::optional<int64_t> default_value) {
  CategoricalColumn column = column_of(IdKind::kIdentity, key);
  column.feature.ids.num_buckets = positive(key, "num_buckets", num_buckets);
  if (default_value && (*default_value < 0 || *default_value >= num_buckets))
    bad(key, "default_value is {} but must be in [0, {})", *default_value, num_buckets);
  column.feature.ids.default_value = default_value;
  return column;
}

CategoricalColumn categorical_column_with_hash_bucket(const std::string& key, int64_t hash_bucket_size) {
  CategoricalColumn column = column_of(IdKind::kHashBucket, key);
  column.feature.ids.num_buckets = positive(key, "hash_bucket_size", hash_bucket_size);
  return column;
}

CategoricalColumn categorical_column_with_vocabulary_list(const std::string& key,
                                                          std::vector<std::string> vocabulary_list,
                                                          std::optional<int64_t> default_value,
                                                          int64_t num_oov_buckets) {
  if (vocabulary_list.empty()) bad(key, "vocabulary_list is empty");
  CategoricalColumn column = vocabulary_column(key, default_value, num_oov_buckets);
  column.feature.ids.vocabulary = at_place(fmt::format("column '{}'", key), [&] {
    return std::make_shared<const job::Vocabulary>(std::move(vocabulary_list));
  });
  return column;
}

CategoricalColumn categorical_column_with_vocabulary_list(const std::string& key,
                                                          const std::vector<int64_t>& vocabulary_list,
                                                          std::optional<int64_t> default_value,
                                                          int64_t num_oov_buckets) {
  std::vector<std::string> texts;
  for (const int64_t value : vocabulary_list) texts.push_back(std::to_string(value));
  return categorical_column_with_vocabulary_list(key, std::move(texts), default_value, num_oov_buckets);
}

CategoricalColumn categorical_column_with_vocabulary_file(const std::string& key,
                                                          const std::string& vocabulary_file,
                                                          int64_t vocabulary_size,
                                                          std::optional<int64_t> default_value,
                                                          int64_t num_oov_buckets) {
  if (vocabulary_size < 0)
    bad(key, "vocabulary_size is {} but must be at least 1, or 0 for all", vocabulary_size);
  CategoricalColumn column = vocabulary_column(key, default_value, num_oov_buckets);
  column.feature.ids.vocabulary = at_place(fmt::format("column '{}'", key), [&] {
    return job::Vocabulary::read(vocabulary_file, vocabulary_size, false);
  });
  return column;
}

CategoricalColumn categorical_column_with_embedding(const std::string& key) {
  return column_of(IdKind::kRaw, key);
}

CategoricalColumn bucketized_column(const std::string& numeric_key, std::vector<double> boundaries) {
  CategoricalColumn column = column_of(IdKind::kBucketized, numeric_key);
  column.feature.name += "_bucketized";
  const auto finite = [](double b) { return std::isfinite(b); };
  if (boundaries.empty() || !std::all_of(boundaries.begin(), boundaries.end(), finite) ||
      std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) != boundaries.end())
    bad(column.name(), "boundaries must be at least one finite number, each larger than the one before");
  column.feature.ids.boundaries = std::move(boundaries);
  return column;
}

CategoricalColumn crossed_column(const std::vector<CrossKey>& keys, int64_t hash_bucket_size,
                                 uint64_t hash_key) {
  CategoricalColumn column = column_of(IdKind::kCrossed, "");
  std::vector<std::string> names;
  for (const CrossKey& key : keys) {
    for (job::Feature& input : inputs_of(key)) {
      names.push_back(input.name);
      column.feature.crossed.push_back(std::move(input));
    }
  }
  column.feature.name = joined(names, "_X_");
  if (keys.size() < 2) bad(column.name(), "a cross needs at least two keys");
  column.feature.ids.num_buckets = positive(column.name(), "hash_bucket_size", hash_bucket_size);
  column.feature.ids.hash_key = hash_key;
  return column;
}

CategoricalColumn weighted_categorical_column(CategoricalColumn column,
                                              const std::string& weight_feature_key) {
  if (!column.feature.weights.empty()) bad(column.name(), "has weights already");
  column.feature.weights = weight_feature_key;
  column.feature.name += "_weighted_by_" + weight_feature_key;
  return column;
}

DenseColumn numeric_column(const std::string& key) {
  return dense_column(DenseColumn::Kind::kNumeric, key, {});
}

DenseColumn embedding_column(const CategoricalColumn& column, int64_t dimension,
                             const EmbeddingColumnOptions& options) {
  const std::string name = column.name() + "_embedding";
  return embedding(column, name, name, dimension, options);
}

std::vector<DenseColumn> shared_embedding_columns(const std::vector<CategoricalColumn>& columns,
                                                  int64_t dimension, const EmbeddingColumnOptions& options,
                                                  std::string shared_embedding_collection_name) {
  std::string& table = shared_embedding_collection_name;
  if (table.empty()) {
    std::vector<std::string> names;
    for (const CategoricalColumn& column : columns) names.push_back(column.name());
    table = joined(names, "_") + "_shared_embedding";
  }
  std::vector<DenseColumn> shared;
  for (const CategoricalColumn& column : columns)
    shared.push_back(embedding(column, column.name() + "_shared_embedding", table, dimension, options));
  return shared;
}

DenseColumn indicator_column(const CategoricalColumn& column) {
  return dense_column(DenseColumn::Kind::kIndicator, column.name() + "_indicator", column);
}

InputLayerImpl::InputLayerImpl(std::vector<DenseColumn> columns, const ModelConfig& config) {
  std::sort(columns.begin(), columns.end(),
            [](const DenseColumn& a, const DenseColumn& b) { return a.name < b.name; });
  for (DenseColumn& column : columns) {
    if (!columns_.empty() && columns_.back().column.name == column.name)
      bad(column.name, "is in the input twice");
    columns_.push_back(made(std::move(column), config));
    total_ += columns_.back().width;
  }
  if (columns_.empty()) fail(ErrorCode::kInvalid, "an input layer needs at least one column");
}

// The feature of the batch that holds the column's ids, derived unless the data has it as it is.
data::CategoricalFeature InputLayerImpl::resolve(const CategoricalColumn& column,
                                                 const data::FeatureSchema& schema) {
  const data::Derivation derivation(column.feature, schema);
  if (column.feature.ids.kind == IdKind::kRaw && column.feature.weights.empty())
    return schema.categorical[static_cast<size_t>(schema.categorical_index(column.feature.column))];
  data::CategoricalFeature feature = derivation.schema();
  const bool seen = std::any_of(derived_.begin(), derived_.end(),
                                [&](const auto& d) { return d.schema().name == feature.name; });
  if (!seen) derived_.push_back(derivation);
  return feature;
}

InputLayerImpl::Column InputLayerImpl::made(DenseColumn dense, const ModelConfig& config) {
  const data::FeatureSchema& schema = config.features();
  Column column{std::move(dense), "", 1};
  const DenseColumn& declared = column.column;
  if (declared.kind == DenseColumn::Kind::kNumeric) {
    const auto at = std::find(schema.numeric.begin(), schema.numeric.end(), declared.name);
    if (at == schema.numeric.end())
      bad(declared.name, "the data has no numeric feature of this name{}",
          suggestion(declared.name, schema.numeric));
    column.numeric = static_cast<size_t>(at - schema.numeric.begin());
    return column;
  }
  const data::CategoricalFeature feature = resolve(declared.categorical, schema);
  column.feature = feature.name;
  if (declared.kind == DenseColumn::Kind::kIndicator) {
    if (feature.buckets == 0)
      bad(declared.name, "needs a known number of ids, but '{}' may have any number: embed it, or hash it",
          declared.categorical.name());
    column.width = feature.buckets;
    return column;
  }
  column.width = config.dim(declared.table, declared.dimension);
  EmbeddingOptions options(declared.table, column.width);
  options.key_kind = feature.key_kind;
  options.combiner = declared.combiner;
  options.initializer = declared.initializer;
  options.max_norm = declared.max_norm;
  options.features = {feature.name};
  column.embedding = register_module(fmt::format("column{}", columns_.size()), Embedding(options));
  return column;
}

torch::Tensor InputLayerImpl::indicator(const Ids& ids, int64_t buckets) {
  torch::Tensor out = torch::zeros({ids.examples(), buckets});
  auto* const values = out.data_ptr<float>();
  const KeysView keys = ids.keys;
  for (int64_t e = 0; e < ids.examples(); ++e) {
    for (int64_t i = ids.offsets[e]; i < ids.offsets[e + 1]; ++i) {
      const auto at = static_cast<size_t>(i);
      values[e * buckets + keys.ints[at]] += ids.weights.empty() ? 1.0f : ids.weights[at];
    }
  }
  return out;
}

torch::Tensor InputLayerImpl::forward(const Batch& batch) {
  std::vector<torch::Tensor> parts;
  for (Column& column : columns_) {
    if (column.column.kind == DenseColumn::Kind::kNumeric) {
      parts.push_back(batch.numeric().narrow(1, static_cast<int64_t>(column.numeric), 1));
    } else if (column.column.kind == DenseColumn::Kind::kIndicator) {
      parts.push_back(indicator(batch.ids(column.feature), column.width));
    } else {
      parts.push_back(column.embedding->forward(batch.ids(column.feature)));
    }
  }
  return at::cat(parts, 1);
}

std::vector<InputLayerImpl::Part> InputLayerImpl::parts() const {
  std::vector<Part> parts;
  for (const Column& column : columns_) parts.push_back({column.column.name, column.width});
  return parts;
}

}  // namespace embers
