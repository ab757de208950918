#include "model/layers/layers.h"

#include <algorithm>

namespace embers {

MlpImpl::MlpImpl(const std::vector<int64_t>& sizes, const std::string& setting, double dropout,
                 uint64_t seed) {
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (sizes[i + 1] < 1)
      fail(ErrorCode::kInvalid, "[model] {} has a layer of {} units: give positive sizes", setting,
           sizes[i + 1]);
    linears_.push_back(
        register_module(fmt::format("linear{}", i), torch::nn::Linear(sizes[i], sizes[i + 1])));
    if (i + 2 < sizes.size())
      dropouts_.push_back(register_module(fmt::format("dropout{}", i), Dropout(dropout, seed, i)));
  }
}

torch::Tensor MlpImpl::forward(torch::Tensor x, const Batch& batch) {
  for (size_t i = 0; i < linears_.size(); ++i) {
    x = linears_[i]->forward(x);
    if (i < dropouts_.size()) x = dropouts_[i]->forward(x.relu(), batch);
  }
  return x;
}

FieldsImpl::FieldsImpl(const ModelConfig& config, const Options& options) {
  for (const data::CategoricalFeature& feature : config.features().categorical) {
    const std::string table = options.prefix + feature.name;
    EmbeddingOptions embedding(table, config.dim(table, options.dim));
    embedding.key_kind = feature.key_kind;
    embedding.combiner = options.combiner;
    embedding.initializer = options.initializer;
    embedding.features = {feature.name};
    embeddings_.push_back(register_module(fmt::format("field{}", embeddings_.size()), Embedding(embedding)));
    features_.push_back(feature.name);
  }
}

std::vector<torch::Tensor> FieldsImpl::forward(const Batch& batch) {
  std::vector<torch::Tensor> fields;
  for (size_t f = 0; f < features_.size(); ++f)
    fields.push_back(embeddings_[f]->forward(batch.ids(features_[f])));
  return fields;
}

// In two operators, where one for each field would take longer to start than to add. Side by side, as
// columns, fields would be copied float by float.
torch::Tensor FieldsImpl::sum(const Batch& batch) {
  if (features_.empty()) return torch::zeros({batch.examples(), 1});
  return at::stack(forward(batch)).sum(0);
}

int64_t FieldsImpl::total_dim() const {
  int64_t total = 0;
  for (const Embedding& embedding : embeddings_) total += embedding->options().output_dim;
  return total;
}

void FieldsImpl::check_dims(const std::string& model, int64_t dim) const {
  for (const Embedding& embedding : embeddings_)
    if (embedding->options().output_dim != dim)
      fail(ErrorCode::kInvalid,
           "model '{}' needs dim {} for table '{}', but [storage.tables] gives it {}: narrow its match",
           model, dim, embedding->options().table, embedding->options().output_dim);
}

}  // namespace embers
