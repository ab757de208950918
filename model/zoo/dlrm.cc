// Deep Learning Recommendation Model for Personalization and Recommendation Systems (Naumov et al. 2019).
//
//   model.dim      16         dim of all tables and of the bottom MLP's output
//   model.bottom   [64]       hidden layers over the numeric features; a last one of model.dim follows
//   model.top      [64, 32]   hidden layers over the interactions
//   model.dropout  0.0        after each hidden layer of the top
//
// Tables: "<feature>" of model.dim, combiner sum as in the paper's reference. The top MLP sees the bottom's
// output and the inner products of all pairs of fields, the bottom's output being one of them. Without
// numeric features a learned vector stands for the bottom's output, which makes its products linear terms.
#include <cmath>

#include "model/layers/layers.h"
#include "model/layers/pair_products.h"
#include "model/zoo/zoo.h"

namespace embers {
namespace {

class Dlrm final : public Model {
 public:
  explicit Dlrm(const ModelConfig& config) : dim_(config.get_int("dim", 16)) {
    const auto numerics = static_cast<int64_t>(config.features().numeric.size());
    embeddings_ = register_module(
        "embeddings", Fields(config, FieldsImpl::Options{"", dim_, Combiner::kSum, {"uniform", {}}}));
    embeddings_->check_dims("dlrm", dim_);
    std::vector<int64_t> bottom = config.get_ints("bottom", {64});
    bottom.insert(bottom.begin(), numerics);
    bottom.push_back(dim_);
    if (numerics > 0) {
      bottom_ = register_module("bottom", Mlp(bottom, "bottom", 0, config.seed()));
    } else {
      const double bound = 1 / std::sqrt(static_cast<double>(dim_));  // as a linear layer's bias
      constant_ = register_parameter("constant", torch::empty({1, dim_}).uniform_(-bound, bound));
    }
    const auto fields = static_cast<int64_t>(config.features().categorical.size()) + 1;
    std::vector<int64_t> top = config.get_ints("top", {64, 32});
    top.insert(top.begin(), fields * (fields - 1) / 2 + dim_);
    top.push_back(1);
    top_ = register_module("top", Mlp(top, "top", config.get_double("dropout", 0), config.seed()));
  }

  torch::Tensor forward(const Batch& batch) override {
    const torch::Tensor bottom = bottom_ ? bottom_->forward(batch.numeric(), batch).relu()
                                         : constant_.expand({batch.examples(), dim_});
    std::vector<torch::Tensor> fields = embeddings_->forward(batch);
    fields.insert(fields.begin(), bottom);
    return top_->forward(pair_products(fields, bottom), batch).squeeze(1);
  }

 private:
  const int64_t dim_;
  Fields embeddings_{nullptr};
  Mlp bottom_{nullptr}, top_{nullptr};
  torch::Tensor constant_;  // [1, dim], only without numeric features
};

}  // namespace

std::shared_ptr<Model> make_dlrm(const ModelConfig& config) { return std::make_shared<Dlrm>(config); }

}  // namespace embers
