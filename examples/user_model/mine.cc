// A model of one's own: a factorization machine over all categorical features, plus a linear term for the
// numeric ones.
//
//   logit(example) = w . numeric + sum over pairs of features of <v_i, v_j>
#include <torch/nn/modules/linear.h>

#include "model/layers/embedding.h"
#include "model/layers/model.h"

namespace {

class Mine : public embers::Model {
 public:
  explicit Mine(const embers::ModelConfig& config) {
    // Reading a key of [model] is all it takes to define it; keys that nobody reads are refused.
    const int64_t dim = config.get_int("dim", 8);
    for (const embers::data::CategoricalFeature& feature : config.features().categorical) {
      embers::EmbeddingOptions options(feature.name, config.dim(feature.name, dim));
      options.combiner = embers::Combiner::kMean;
      // Pulled ahead of the forward pass, all tables in one message per owner. Keys are of the feature's kind.
      options.features = {feature.name};
      fields_.push_back(register_module(fmt::format("field{}", fields_.size()), embers::Embedding(options)));
    }
    const auto numerics = static_cast<int64_t>(config.features().numeric.size());
    linear_ = register_module("linear", torch::nn::Linear(numerics, 1));
  }

  // Logits [N]. The loss is binary cross entropy unless a model overrides loss().
  torch::Tensor forward(const embers::Batch& batch) override {
    torch::Tensor sum = torch::zeros({1}), squares = torch::zeros({1});
    for (embers::Embedding& field : fields_) {
      const torch::Tensor v = field->forward(batch.ids(field->options().table));  // [N, dim]
      sum = sum + v;
      squares = squares + v.square();
    }
    const torch::Tensor pairs = 0.5 * (sum.square() - squares).sum(-1);
    return linear_->forward(batch.numeric()).squeeze(1) + pairs;
  }

 private:
  std::vector<embers::Embedding> fields_;
  torch::nn::Linear linear_{nullptr};
};

}  // namespace

EMBERS_MODEL(Mine)
