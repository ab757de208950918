// A multilayer perceptron over an input layer, as tf.estimator.DNNClassifier: the input is what [columns] of
// the job file declares.
//
//   model.dim      8          dim of the tables of a job without [columns], which takes all features
//   model.hidden   [64, 32]   hidden layers
//   model.dropout  0.0        after each of them
//
// Tables: "<feature>_embedding", or the name of a shared one.
#include "model/columns/feature_column.h"
#include "model/layers/layers.h"
#include "model/zoo/zoo.h"

namespace embers {
namespace {

class Dnn final : public Model {
 public:
  explicit Dnn(const ModelConfig& config) {
    input_ = register_module("input", InputLayer(declared_columns(config, config.get_int("dim", 8)), config));
    std::vector<int64_t> sizes = config.get_ints("hidden", {64, 32});
    sizes.insert(sizes.begin(), input_->total());
    sizes.push_back(1);
    mlp_ = register_module("mlp", Mlp(sizes, "hidden", config.get_double("dropout", 0), config.seed()));
  }

  torch::Tensor forward(const Batch& batch) override {
    return mlp_->forward(input_->forward(batch), batch).squeeze(1);
  }

 private:
  InputLayer input_{nullptr};
  Mlp mlp_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_dnn(const ModelConfig& config) { return std::make_shared<Dnn>(config); }

}  // namespace embers
