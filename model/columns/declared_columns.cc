#include "model/columns/feature_column.h"

namespace embers {
namespace {

using Kind = job::InputColumn::Kind;

Combiner combiner_of(const std::string& name) {
  if (name == "sum") return Combiner::kSum;
  return name == "mean" ? Combiner::kMean : Combiner::kSqrtN;
}

std::vector<DenseColumn> dense_columns(const job::InputColumn& declared) {
  const EmbeddingColumnOptions options{combiner_of(declared.combiner), declared.initializer,
                                       declared.max_norm, declared.do_fusion};
  std::vector<CategoricalColumn> ids;
  for (const std::string& feature : declared.features)
    ids.push_back(categorical_column_with_embedding(feature));
  switch (declared.kind) {
    case Kind::kNumeric:
      return {numeric_column(declared.features.front())};
    case Kind::kIndicator:
      return {indicator_column(ids.front())};
    case Kind::kEmbedding:
      return {embedding_column(ids.front(), declared.dimension, options)};
    default:
      return shared_embedding_columns(ids, declared.dimension, options, declared.table);
  }
}

}  // namespace

std::vector<DenseColumn> declared_columns(const ModelConfig& config, int64_t dimension) {
  std::vector<DenseColumn> columns;
  for (const job::InputColumn& declared : config.columns())
    for (DenseColumn& column : dense_columns(declared)) columns.push_back(std::move(column));
  if (!columns.empty()) return columns;
  for (const std::string& feature : config.features().numeric) columns.push_back(numeric_column(feature));
  for (const data::CategoricalFeature& feature : config.features().categorical)
    columns.push_back(embedding_column(categorical_column_with_embedding(feature.name), dimension));
  return columns;
}

}  // namespace embers
