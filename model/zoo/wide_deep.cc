// Wide & Deep Learning for Recommender Systems (Cheng et al. 2016).
//
//   model.dim      8          dim of the deep tables; per table by [storage.tables]
//   model.hidden   [64, 32]   hidden layers of the deep part
//   model.dropout  0.0        after each of them
//
// Tables: "wide/<feature>" of dim 1, zeros at first, combiner sum: the weights of a linear model over all
// ids; "<feature>" of model.dim, combiner mean, so that the scale does not depend on how many values an
// example has.
#include "model/layers/layers.h"
#include "model/zoo/zoo.h"

namespace embers {
namespace {

class WideDeep final : public Model {
 public:
  explicit WideDeep(const ModelConfig& config) {
    const auto numerics = static_cast<int64_t>(config.features().numeric.size());
    wide_ = register_module("wide",
                            Fields(config, FieldsImpl::Options{"wide/", 1, Combiner::kSum, {"zeros", {}}}));
    wide_->check_dims("wide_deep", 1);
    if (numerics > 0)
      wide_numeric_ = register_module("wide_numeric",
                                      torch::nn::Linear(torch::nn::LinearOptions(numerics, 1).bias(false)));
    deep_ = register_module(
        "deep",
        Fields(config, FieldsImpl::Options{"", config.get_int("dim", 8), Combiner::kMean, {"uniform", {}}}));
    std::vector<int64_t> sizes = config.get_ints("hidden", {64, 32});
    sizes.insert(sizes.begin(), deep_->total_dim() + numerics);
    sizes.push_back(1);
    mlp_ = register_module("mlp", Mlp(sizes, "hidden", config.get_double("dropout", 0), config.seed()));
  }

  torch::Tensor forward(const Batch& batch) override {
    std::vector<torch::Tensor> deep = deep_->forward(batch);
    deep.push_back(batch.numeric());
    torch::Tensor logit = mlp_->forward(at::cat(deep, 1), batch) + wide_->sum(batch);
    if (wide_numeric_) logit = logit + wide_numeric_->forward(batch.numeric());
    return logit.squeeze(1);
  }

 private:
  Fields wide_{nullptr}, deep_{nullptr};
  torch::nn::Linear wide_numeric_{nullptr};
  Mlp mlp_{nullptr};  // its last bias is the model's
};

}  // namespace

std::shared_ptr<Model> make_wide_deep(const ModelConfig& config) {
  return std::make_shared<WideDeep>(config);
}

}  // namespace embers
