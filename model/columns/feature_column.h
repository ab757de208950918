#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/derive.h"
#include "model/layers/embedding.h"
#include "model/layers/model.h"

namespace embers {

// tf.feature_column for models in C++: columns say how the data's features become a model's input, an
// InputLayer makes it. Names, parameters, defaults and results are TensorFlow's; what differs is said below.
// Ids are made on the reader's thread, by the functions of data/categorical.h, and all embedding columns of a
// model, of however many input layers, go through one dedupe and one pull per owner.
//
// Every `key` names a feature of the job's [features]: a categorical one, or a numeric one where a number is
// needed. Missing values are those of the data. Functions fail with kInvalid naming the column for parameters
// that TensorFlow refuses too.

// A column of ids. Names are TensorFlow's: the key; "<key>_bucketized"; "<a>_X_<b>", sorted, for a cross;
// "<column>_weighted_by_<key>".
struct CategoricalColumn {
  job::Feature feature;
  const std::string& name() const { return feature.name; }
};

// Int64 keys as they are; those outside [0, num_buckets) become default_value, or end the job if there is
// none.
CategoricalColumn categorical_column_with_identity(const std::string& key, int64_t num_buckets,
                                                   std::optional<int64_t> default_value = std::nullopt);
CategoricalColumn categorical_column_with_hash_bucket(const std::string& key, int64_t hash_bucket_size);
// Unknown values become default_value (-1: no id) or, with num_oov_buckets, one of that many ids after the
// vocabulary's.
CategoricalColumn categorical_column_with_vocabulary_list(const std::string& key,
                                                          std::vector<std::string> vocabulary_list,
                                                          std::optional<int64_t> default_value = std::nullopt,
                                                          int64_t num_oov_buckets = 0);
CategoricalColumn categorical_column_with_vocabulary_list(const std::string& key,
                                                          const std::vector<int64_t>& vocabulary_list,
                                                          std::optional<int64_t> default_value = std::nullopt,
                                                          int64_t num_oov_buckets = 0);
// Reads the file now; vocabulary_size 0: all of its lines.
CategoricalColumn categorical_column_with_vocabulary_file(const std::string& key,
                                                          const std::string& vocabulary_file,
                                                          int64_t vocabulary_size = 0,
                                                          std::optional<int64_t> default_value = std::nullopt,
                                                          int64_t num_oov_buckets = 0);
// DeepRec: the raw int64 or string keys, for a table that grows with them. Also how a feature that the job
// file made ids of (as = "hash_bucket", ...) is used; it keeps its weights and its number of buckets.
CategoricalColumn categorical_column_with_embedding(const std::string& key);
// A numeric feature, after the job file's transform, as the number of its bucket.
CategoricalColumn bucketized_column(const std::string& numeric_key, std::vector<double> boundaries);
// Keys are features by name, crossed by their raw values, or columns other than hashed and weighted ones.
using CrossKey = std::variant<std::string, CategoricalColumn>;
CategoricalColumn crossed_column(const std::vector<CrossKey>& keys, int64_t hash_bucket_size,
                                 uint64_t hash_key = job::kCrossHashKey);
// weight_feature_key: a numeric feature, the weight of each example's one id. A feature of several weighted
// values gets its weights in the job file (weights = "column").
CategoricalColumn weighted_categorical_column(CategoricalColumn column,
                                              const std::string& weight_feature_key);

// A column of numbers: a part of each example's input.
struct DenseColumn {
  enum class Kind : uint8_t { kNumeric, kEmbedding, kIndicator };
  Kind kind;
  std::string name;               // as TensorFlow's; the input has columns in order of their names
  CategoricalColumn categorical;  // unless numeric
  // embedding
  std::string table;
  int64_t dimension = 0;
  Combiner combiner = Combiner::kMean;
  InitializerSpec initializer;
  double max_norm = 0;
};

struct EmbeddingColumnOptions {
  Combiner combiner = Combiner::kMean;
  std::optional<InitializerSpec> initializer;  // default: truncated_normal, stddev 1 / sqrt(dimension)
  double max_norm = 0;                         // 0: none
  // DeepRec's switch between its operators. Changes nothing: all columns are fused.
  bool do_fusion = false;
};

// One value of a numeric feature.
DenseColumn numeric_column(const std::string& key);
// "<column>_embedding", also the name of its table.
DenseColumn embedding_column(const CategoricalColumn& column, int64_t dimension,
                             const EmbeddingColumnOptions& options = {});
// "<column>_shared_embedding" each, in order of the argument; one table, by default
// "<a>_<b>_shared_embedding" of the sorted names. Unlike TensorFlow's, columns may be of different kinds:
// keys are all that they share.
std::vector<DenseColumn> shared_embedding_columns(const std::vector<CategoricalColumn>& columns,
                                                  int64_t dimension,
                                                  const EmbeddingColumnOptions& options = {},
                                                  std::string shared_embedding_collection_name = "");
// "<column>_indicator": how often each id occurs, or the sum of its weights. Needs a column whose number of
// buckets is known.
DenseColumn indicator_column(const CategoricalColumn& column);

// The columns that the job file declares in [columns]; without any, all features: numeric ones as they are,
// categorical ones embedded with `dimension`.
std::vector<DenseColumn> declared_columns(const ModelConfig& config, int64_t dimension);

// tf.feature_column.input_layer. Register it in the model like any module.
class InputLayerImpl : public torch::nn::Module {
 public:
  // kInvalid naming the column for one that the data does not fit, and for two columns with the same name.
  // [storage.tables] may give a table another dim.
  InputLayerImpl(std::vector<DenseColumn> columns, const ModelConfig& config);
  // float32 [N, total()]: the columns' values beside each other, in order of the columns' names.
  torch::Tensor forward(const Batch& batch);
  int64_t total() const { return total_; }
  // The columns in order of the input, each with the number of its values.
  struct Part {
    std::string name;
    int64_t width;
  };
  std::vector<Part> parts() const;
  // Features that are made from the data's own, for the code that prepares minibatches.
  const std::vector<data::Derivation>& derived() const { return derived_; }

 private:
  struct Column {
    DenseColumn column;
    std::string feature;  // categorical feature of the batch
    int64_t width;        // values an example
    size_t numeric = 0;   // column of Batch::numeric()
    Embedding embedding{nullptr};
  };
  data::CategoricalFeature resolve(const CategoricalColumn& column, const data::FeatureSchema& schema);
  Column made(DenseColumn column, const ModelConfig& config);
  static torch::Tensor indicator(const Ids& ids, int64_t buckets);

  std::vector<Column> columns_;
  std::vector<data::Derivation> derived_;
  int64_t total_ = 0;
};
TORCH_MODULE(InputLayer);

}  // namespace embers
