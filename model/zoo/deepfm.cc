// DeepFM: A Factorization-Machine based Neural Network for CTR Prediction (Guo et al. 2017).
//
//   model.dim      8          dim of the factors, one for all features
//   model.hidden   [64, 32]   hidden layers of the deep part
//   model.dropout  0.0        after each of them
//
// Tables: "first/<feature>" of dim 1, zeros at first, combiner sum (the first-order weights), and "<feature>"
// of model.dim, combiner mean, shared by the second-order term and the deep part. A numeric feature x has a
// first-order weight and a factor vector v among the dense parameters; its field is x v.
#include "model/layers/layers.h"
#include "model/layers/second_order.h"
#include "model/zoo/zoo.h"

namespace embers {
namespace {

class DeepFm final : public Model {
 public:
  explicit DeepFm(const ModelConfig& config) {
    const auto numerics = static_cast<int64_t>(config.features().numeric.size());
    const auto fields = numerics + static_cast<int64_t>(config.features().categorical.size());
    const int64_t dim = config.get_int("dim", 8);
    first_ = register_module("first",
                             Fields(config, FieldsImpl::Options{"first/", 1, Combiner::kSum, {"zeros", {}}}));
    first_->check_dims("deepfm", 1);
    factors_ = register_module(
        "factors", Fields(config, FieldsImpl::Options{"", dim, Combiner::kMean, {"uniform", {}}}));
    factors_->check_dims("deepfm", dim);
    if (numerics > 0) {
      numeric_first_ = register_module("numeric_first",
                                       torch::nn::Linear(torch::nn::LinearOptions(numerics, 1).bias(false)));
      // as Keras' "uniform", like the tables
      numeric_factors_ =
          register_parameter("numeric_factors", torch::empty({numerics, dim}).uniform_(-0.05, 0.05));
    }
    std::vector<int64_t> sizes = config.get_ints("hidden", {64, 32});
    sizes.insert(sizes.begin(), fields * dim);
    sizes.push_back(1);
    mlp_ = register_module("mlp", Mlp(sizes, "hidden", config.get_double("dropout", 0), config.seed()));
  }

  torch::Tensor forward(const Batch& batch) override {
    const SecondOrder factors = second_order(factors_->forward(batch), batch.numeric(), numeric_factors_);
    torch::Tensor logit = mlp_->forward(factors.fields.flatten(1), batch) + factors.sum + first_->sum(batch);
    if (numeric_first_) logit = logit + numeric_first_->forward(batch.numeric());
    return logit.squeeze(1);
  }

 private:
  Fields first_{nullptr}, factors_{nullptr};
  torch::nn::Linear numeric_first_{nullptr};
  torch::Tensor numeric_factors_;
  Mlp mlp_{nullptr};  // its last bias is the model's
};

}  // namespace

std::shared_ptr<Model> make_deepfm(const ModelConfig& config) { return std::make_shared<DeepFm>(config); }

}  // namespace embers
