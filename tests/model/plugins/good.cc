// A model library with one class, as most users write it.
#include <torch/nn/modules/linear.h>

#include "model/layers/model.h"

namespace {

class Good : public embers::Model {
 public:
  explicit Good(const embers::ModelConfig& config) {
    const auto inputs = static_cast<int64_t>(config.features().numeric.size());
    if (config.get_bool("throw_torch_error", false)) at::zeros({2}).view({3});
    linear_ = register_module("linear", torch::nn::Linear(inputs, 1));
  }
  torch::Tensor forward(const embers::Batch& batch) override {
    return linear_->forward(batch.numeric()).squeeze(1);
  }

 private:
  torch::nn::Linear linear_{nullptr};
};

}  // namespace

EMBERS_MODEL(Good)
