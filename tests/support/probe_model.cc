// Models for tests of whole jobs, by model.name:
//   count       a table "count/<feature>" of dim 1, zeros at first, per categorical feature. Its loss is
//               minus the sum of all rows looked up, so with sgd, learning rate 1 and reduction sum each
//               row ends as the number of records that held its key. Scores are 0.5.
//   slow        like wide_deep, a deep table per categorical feature; sleeps model.sleep_ms (10) a forward
//   dense_only  logistic regression on the numeric features
//   batchnorm   dense_only behind a BatchNorm1d, for buffers
//   throws      a forward that throws "no way forward" at its 10th call
// A forward of count or slow does not return while the file model.hang_file holds the number of its process;
// hang_file.held then exists.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "model/layers/embedding.h"
#include "model/layers/model.h"

namespace {

using embers::Batch;
using embers::Embedding;
using embers::ModelConfig;

// One Embedding per categorical feature.
struct Fields : torch::nn::Module {
  Fields(const ModelConfig& config, const std::string& prefix, int64_t dim, const std::string& initializer) {
    for (const embers::data::CategoricalFeature& feature : config.features().categorical) {
      embers::EmbeddingOptions options(prefix + feature.name, dim);
      options.key_kind = feature.key_kind;
      options.combiner = embers::Combiner::kSum;
      options.initializer = {initializer, {}};
      options.features = {feature.name};
      layers.push_back(register_module(fmt::format("field{}", layers.size()), Embedding(options)));
    }
  }
  // [N, features x dim]
  torch::Tensor forward(const Batch& batch) {
    std::vector<torch::Tensor> rows{torch::zeros({batch.examples(), 0})};
    for (const Embedding& layer : layers)
      rows.push_back(Embedding(layer)->forward(batch.ids(layer->options().features[0])));
    return at::cat(rows, 1);
  }
  std::vector<Embedding> layers;
};

// How long a forward takes.
class Pace {
 public:
  Pace(const ModelConfig& config, int64_t sleep_ms)
      : sleep_(config.get_int("sleep_ms", sleep_ms)), hang_file_(config.get_string("hang_file", "")) {}
  void wait() const {
    std::this_thread::sleep_for(sleep_);
    while (hangs()) {
      std::ofstream(hang_file_ + ".held");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

 private:
  bool hangs() const {
    pid_t pid = 0;
    return !hang_file_.empty() && std::ifstream(hang_file_) >> pid && pid == getpid();
  }

  std::chrono::milliseconds sleep_;
  std::string hang_file_;
};

class Count : public embers::Model {
 public:
  explicit Count(const ModelConfig& config)
      : pace_(config, 0),
        fields_(register_module("fields", std::make_shared<Fields>(config, "count/", 1, "zeros"))) {}
  torch::Tensor forward(const Batch& batch) override {
    pace_.wait();
    return fields_->forward(batch).sum(1);
  }
  torch::Tensor loss(const torch::Tensor& output, const Batch&) override { return -output.sum(); }
  torch::Tensor score(const torch::Tensor& output) override { return torch::full_like(output, 0.5); }

 private:
  Pace pace_;
  std::shared_ptr<Fields> fields_;
};

class Slow : public embers::Model {
 public:
  explicit Slow(const ModelConfig& config)
      : pace_(config, 10),
        fields_(register_module("fields", std::make_shared<Fields>(config, "", 4, "uniform"))) {
    const auto inputs = static_cast<int64_t>(config.features().numeric.size() + 4 * fields_->layers.size());
    linear_ = register_module("linear", torch::nn::Linear(inputs, 1));
  }
  torch::Tensor forward(const Batch& batch) override {
    pace_.wait();
    return linear_->forward(at::cat({fields_->forward(batch), batch.numeric()}, 1)).squeeze(1);
  }

 private:
  Pace pace_;
  std::shared_ptr<Fields> fields_;
  torch::nn::Linear linear_{nullptr};
};

class Logistic : public embers::Model {
 public:
  Logistic(const ModelConfig& config, bool normalize) {
    const auto inputs = static_cast<int64_t>(config.features().numeric.size());
    if (normalize) norm_ = register_module("norm", torch::nn::BatchNorm1d(inputs));
    linear_ = register_module("linear", torch::nn::Linear(inputs, 1));
  }
  torch::Tensor forward(const Batch& batch) override {
    const torch::Tensor x = norm_ ? norm_->forward(batch.numeric()) : batch.numeric();
    return linear_->forward(x).squeeze(1);
  }

 private:
  torch::nn::BatchNorm1d norm_{nullptr};
  torch::nn::Linear linear_{nullptr};
};

class Throws : public Slow {
 public:
  using Slow::Slow;
  torch::Tensor forward(const Batch& batch) override {
    if (++calls_ == 10) throw std::runtime_error("no way forward");
    return Slow::forward(batch);
  }

 private:
  int calls_ = 0;
};

}  // namespace

extern "C" uint32_t embers_model_abi() { return embers::kModelAbi; }

extern "C" embers::Model* embers_make_model(const ModelConfig& config) {
  if (config.name() == "count") return new Count(config);
  if (config.name() == "slow") return new Slow(config);
  if (config.name() == "throws") return new Throws(config);
  if (config.name() == "dense_only") return new Logistic(config, false);
  if (config.name() == "batchnorm") return new Logistic(config, true);
  return nullptr;
}
