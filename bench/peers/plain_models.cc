#include "bench/peers/plain_models.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <cmath>

#include "base/errors.h"
#include "base/stage_times.h"
#include "model/layers/model.h"
#include "model/layers/random.h"

namespace embers {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

// Linear layers with ReLU between them.
class PlainMlpImpl : public torch::nn::Module {
 public:
  explicit PlainMlpImpl(const std::vector<int64_t>& sizes) {
    for (size_t i = 0; i + 1 < sizes.size(); ++i)
      linears_.push_back(
          register_module(fmt::format("linear{}", i), torch::nn::Linear(sizes[i], sizes[i + 1])));
  }
  Tensor forward(Tensor x) {
    for (size_t i = 0; i < linears_.size(); ++i)
      x = i == 0 ? linears_[i]->forward(x) : linears_[i]->forward(x.relu());
    return x;
  }

 private:
  std::vector<torch::nn::Linear> linears_;
};
TORCH_MODULE(PlainMlp);

struct AdamSettings {
  double learning_rate = 0.001, beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
};

// torch.optim.SparseAdam of one table.
class SparseAdam {
 public:
  SparseAdam(const AdamSettings& settings, const Tensor& parameter)
      : s_(settings), average_(at::zeros_like(parameter)), squares_(at::zeros_like(parameter)) {}

  void step(Tensor parameter) {
    const torch::NoGradGuard no_grad;
    const Tensor gradient = parameter.grad().coalesce();
    const Tensor rows = gradient._indices(), values = gradient._values();
    const auto sparse = [&](const Tensor& v) {
      return at::_sparse_coo_tensor_unsafe(rows, v, gradient.sizes());
    };
    ++steps_;
    const Tensor old_average = average_.sparse_mask(gradient)._values();
    Tensor average_update = values.sub(old_average).mul_(1 - s_.beta_1);
    average_.add_(sparse(average_update));
    const Tensor old_squares = squares_.sparse_mask(gradient)._values();
    Tensor squares_update = values.pow(2).sub_(old_squares).mul_(1 - s_.beta_2);
    squares_.add_(sparse(squares_update));
    Tensor numerator = average_update.add_(old_average);
    const Tensor denominator = squares_update.add_(old_squares).sqrt_().add_(s_.epsilon);
    const double rate =
        s_.learning_rate * std::sqrt(1 - std::pow(s_.beta_2, steps_)) / (1 - std::pow(s_.beta_1, steps_));
    parameter.add_(sparse(-rate * numerator.div_(denominator)));
  }

 private:
  const AdamSettings s_;
  Tensor average_, squares_;
  int64_t steps_ = 0;
};

Tensor view_of(const std::vector<float>& values, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(values.data()), shape, torch::kFloat);
}

// Everything but what comes after the lookups.
class Plain : public torch::nn::Module, public PlainModel {
 public:
  Plain(const job::Job& job, bool late)
      : settings_(settings_of(job)), schema_(job.feature_schema()), late_(late) {}

  double train(const data::Minibatch& m, Times& times) override {
    StopWatch watch;
    const Tensors out = lookup(m);
    times.lookup += watch.lap();
    Tensors leaves;
    for (const Tensor& t : out) leaves.push_back(t.detach().set_requires_grad(true));
    const Tensor loss = loss_of(m, leaves);
    loss.backward();
    const auto value = loss.item<double>();
    times.dense += watch.lap();
    Tensors gradients;
    for (const Tensor& t : leaves) gradients.push_back(t.grad());
    torch::autograd::backward(out, gradients);
    times.gradient += watch.lap();
    gradients = take_gradients();
    if (late_) {
      // The tables' gradients still point to the minibatch's ids.
      for (size_t i = 0; i < tables_.size(); ++i) gradients[i] = gradients[i].coalesce();
      std::swap(gradients, held_);
    }
    apply(gradients, times);
    return value;
  }

  double evaluate(const data::Minibatch& m) override {
    Times ignored;
    apply(std::exchange(held_, {}), ignored);
    const torch::NoGradGuard no_grad;
    return loss_of(m, lookup(m)).item<double>();
  }

 protected:
  // fields: one tensor a table, in order of add_tables(); numeric [N, numerics]. Returns [N, 1].
  virtual Tensor logits(const Tensor& numeric, const Tensors& fields) = 0;

  int64_t numerics() const { return static_cast<int64_t>(schema_.numeric.size()); }
  int64_t columns() const { return static_cast<int64_t>(schema_.categorical.size()); }

  // One table a categorical feature.
  void add_tables(int64_t dim, bool zero) {
    for (size_t c = 0; c < schema_.categorical.size(); ++c) {
      torch::nn::EmbeddingBag table(
          torch::nn::EmbeddingBagOptions(schema_.categorical[c].buckets, dim).sparse(true).mode(torch::kSum));
      const torch::NoGradGuard no_grad;
      zero ? table->weight.zero_() : table->weight.uniform_(-0.05, 0.05);
      tables_.push_back(table);
      feature_.push_back(c);
      sparse_adam_.emplace_back(settings_, table->weight);
    }
  }
  // Call it after all modules are registered under the zoo's names (tables are not): they get the first
  // values of the zoo's model.
  void end(const job::Job& job) {
    const torch::NoGradGuard no_grad;
    const auto zoo = make_model(job)->named_parameters();
    for (auto& parameter : named_parameters()) parameter.value().copy_(zoo[parameter.key()]);
    adam_ =
        std::make_unique<torch::optim::Adam>(parameters(), torch::optim::AdamOptions(settings_.learning_rate)
                                                               .betas({settings_.beta_1, settings_.beta_2})
                                                               .eps(settings_.epsilon));
  }

 private:
  static AdamSettings settings_of(const job::Job& job) {
    if (job.optimizer.name != "adam")
      fail(ErrorCode::kInvalid, "the plain models train with adam, not '{}'", job.optimizer.name);
    for (const data::CategoricalFeature& feature : job.feature_schema().categorical)
      if (feature.buckets == 0)
        fail(ErrorCode::kInvalid, "feature '{}': a plain model must know its number of ids", feature.name);
    AdamSettings s;
    for (const auto& [name, value] : {std::pair{"learning_rate", &s.learning_rate},
                                      {"beta_1", &s.beta_1},
                                      {"beta_2", &s.beta_2},
                                      {"epsilon", &s.epsilon}})
      if (const auto at = job.optimizer.params.find(name); at != job.optimizer.params.end())
        *value = at->second;
    return s;
  }

  // Gradients of the tables, then of the dense parameters; neither have any afterwards.
  Tensors take_gradients() {
    Tensors gradients;
    for (torch::nn::EmbeddingBag& table : tables_)
      gradients.push_back(std::exchange(table->weight.mutable_grad(), Tensor()));
    for (Tensor& parameter : parameters())
      gradients.push_back(std::exchange(parameter.mutable_grad(), Tensor()));
    return gradients;
  }
  // Takes what take_gradients() returned, or nothing.
  void apply(const Tensors& gradients, Times& times) {
    if (gradients.empty()) return;
    StopWatch watch;
    auto gradient = gradients.begin();
    for (size_t i = 0; i < tables_.size(); ++i) {
      tables_[i]->weight.mutable_grad() = *gradient++;
      sparse_adam_[i].step(tables_[i]->weight);
    }
    times.sparse_adam += watch.lap();
    for (Tensor& parameter : parameters()) parameter.mutable_grad() = *gradient++;
    adam_->step();
    times.dense_adam += watch.lap();
    take_gradients();
  }

  Tensors lookup(const data::Minibatch& m) {
    Tensors out;
    for (size_t i = 0; i < tables_.size(); ++i) {
      const Ids& ids = m.ids[feature_[i]];
      const auto keys = ids.keys.view().ints;
      const Tensor rows = torch::from_blob(const_cast<int64_t*>(keys.data()),
                                           {static_cast<int64_t>(keys.size())}, torch::kLong);
      const Tensor offsets =
          torch::from_blob(const_cast<int64_t*>(ids.offsets.data()), {ids.examples()}, torch::kLong);
      out.push_back(tables_[i]->forward(rows, offsets));
    }
    return out;
  }

  Tensor loss_of(const data::Minibatch& m, const Tensors& fields) {
    const Tensor out = logits(view_of(m.numeric, {m.examples, numerics()}), fields);
    return torch::binary_cross_entropy_with_logits(out, view_of(m.labels, {m.examples, 1}));
  }

  const AdamSettings settings_;
  const data::FeatureSchema schema_;
  const bool late_;
  Tensors held_;  // gradients of the minibatch before, where they are late
  std::vector<torch::nn::EmbeddingBag> tables_;
  std::vector<size_t> feature_;  // of each table
  std::vector<SparseAdam> sparse_adam_;
  std::unique_ptr<torch::optim::Adam> adam_;  // of the dense parameters
};

std::vector<int64_t> layers(const job::Job& job, const char* key, std::vector<int64_t> otherwise,
                            int64_t inputs, int64_t outputs) {
  std::vector<int64_t> sizes = job.model.params.value(key, std::move(otherwise));
  sizes.insert(sizes.begin(), inputs);
  sizes.push_back(outputs);
  return sizes;
}

class PlainWideDeep final : public Plain {
 public:
  explicit PlainWideDeep(const job::Job& job, bool late) : Plain(job, late) {
    const int64_t dim = job.model.params.value("dim", 8);
    add_tables(1, true);
    add_tables(dim, false);
    wide_ = register_module("wide_numeric",
                            torch::nn::Linear(torch::nn::LinearOptions(numerics(), 1).bias(false)));
    mlp_ = register_module("mlp", PlainMlp(layers(job, "hidden", {64, 32}, columns() * dim + numerics(), 1)));
    end(job);
  }

 private:
  Tensor logits(const Tensor& numeric, const Tensors& fields) override {
    Tensors deep(fields.begin() + columns(), fields.end());
    deep.push_back(numeric);
    const Tensor wide = at::cat(at::TensorList(fields).slice(0, columns()), 1).sum(1, true);
    return mlp_->forward(at::cat(deep, 1)) + wide + wide_->forward(numeric);
  }
  torch::nn::Linear wide_{nullptr};
  PlainMlp mlp_{nullptr};
};

class PlainDeepFm final : public Plain {
 public:
  explicit PlainDeepFm(const job::Job& job, bool late) : Plain(job, late) {
    const int64_t dim = job.model.params.value("dim", 8);
    add_tables(1, true);
    add_tables(dim, false);
    first_ = register_module("numeric_first",
                             torch::nn::Linear(torch::nn::LinearOptions(numerics(), 1).bias(false)));
    factors_ = register_parameter("numeric_factors", torch::empty({numerics(), dim}));
    mlp_ =
        register_module("mlp", PlainMlp(layers(job, "hidden", {64, 32}, (columns() + numerics()) * dim, 1)));
    end(job);
  }

 private:
  Tensor logits(const Tensor& numeric, const Tensors& fields) override {
    const Tensor embedded = at::stack(at::TensorList(fields).slice(columns()), 1);
    const Tensor all = at::cat({embedded, numeric.unsqueeze(2) * factors_}, 1);
    const Tensor second = 0.5 * (all.sum(1).square() - all.square().sum(1)).sum(1, true);
    const Tensor first = at::cat(at::TensorList(fields).slice(0, columns()), 1).sum(1, true);
    return mlp_->forward(all.flatten(1)) + second + first + first_->forward(numeric);
  }
  torch::nn::Linear first_{nullptr};
  Tensor factors_;
  PlainMlp mlp_{nullptr};
};

class PlainDlrm final : public Plain {
 public:
  explicit PlainDlrm(const job::Job& job, bool late) : Plain(job, late) {
    const int64_t dim = job.model.params.value("dim", 16);
    add_tables(dim, false);
    pairs_ = at::tril_indices(columns() + 1, columns() + 1, -1);
    bottom_ = register_module("bottom", PlainMlp(layers(job, "bottom", {64}, numerics(), dim)));
    top_ = register_module("top", PlainMlp(layers(job, "top", {64, 32}, pairs_.size(1) + dim, 1)));
    end(job);
  }

 private:
  Tensor logits(const Tensor& numeric, const Tensors& fields) override {
    const Tensor bottom = bottom_->forward(numeric).relu();
    Tensors all = fields;
    all.insert(all.begin(), bottom);
    const Tensor stacked = at::stack(all, 1);
    const Tensor products = at::bmm(stacked, stacked.transpose(1, 2));
    const Tensor pairs = products.index({torch::indexing::Slice(), pairs_[0], pairs_[1]});
    return top_->forward(at::cat({bottom, pairs}, 1));
  }
  Tensor pairs_;
  PlainMlp bottom_{nullptr}, top_{nullptr};
};

}  // namespace

std::unique_ptr<PlainModel> PlainModel::make(const job::Job& job, bool late) {
  seed_torch(job.job.seed);
  if (job.model.name == "wide_deep") return std::make_unique<PlainWideDeep>(job, late);
  if (job.model.name == "deepfm") return std::make_unique<PlainDeepFm>(job, late);
  if (job.model.name == "dlrm") return std::make_unique<PlainDlrm>(job, late);
  fail(ErrorCode::kInvalid, "there is no plain model '{}'", job.model.name);
}

}  // namespace embers
