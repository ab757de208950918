#include "bench/peers/plain_models.h"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <random>
#include <utility>

#include "base/errors.h"
#include "base/stage_times.h"
#include "model/layers/model.h"
#include "model/layers/pair_products.h"
#include "model/layers/random.h"
#include "model/layers/second_order.h"

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

Tensor view_of(const std::vector<float>& values, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(values.data()), shape, torch::kFloat);
}

// Everything but what comes after the lookups.
class Plain : public torch::nn::Module, public PlainModel {
 public:
  Plain(const job::Job& job, const Options& options, const std::vector<PlainTables::Group>& groups)
      : settings_(settings_of(job)),
        schema_(job.feature_schema()),
        late_(options.late),
        tables_((options.stacked ? PlainTables::stacked : PlainTables::bags)(schema_, groups, settings_)) {}

  Prepared prepare(const data::Minibatch& m) override { return tables_->prepare(m); }

  double train(const data::Minibatch& m, Times& times, const Prepared& prepared) override {
    StopWatch watch;
    const Tensors fields = tables_->lookup(m, prepared);
    times.lookup += watch.lap();
    const Tensor loss = loss_of(m, fields);
    loss.backward();
    const auto value = loss.item<double>();
    times.dense += watch.lap();
    Tensors of_lookup;
    for (const Tensor& t : fields) of_lookup.push_back(t.grad());
    Tensors of_rows = tables_->gradients(of_lookup), dense;
    for (Tensor& parameter : parameters()) dense.push_back(std::exchange(parameter.mutable_grad(), Tensor()));
    times.gradient += watch.lap();
    apply_rows(std::exchange(held_, {}), times);
    if (std::uniform_real_distribution<double>(0, 1)(random_) < late_)
      held_ = std::move(of_rows);
    else
      apply_rows(of_rows, times);
    apply_dense(dense, times);
    return value;
  }

  double evaluate(const data::Minibatch& m) override {
    Times ignored;
    apply_rows(std::exchange(held_, {}), ignored);
    const torch::NoGradGuard no_grad;
    return loss_of(m, tables_->lookup(m)).item<double>();
  }

 protected:
  // fields: for each group of tables [N, columns, dim]; numeric [N, numerics]. Returns [N, 1].
  virtual Tensor logits(const Tensor& numeric, const Tensors& fields) = 0;

  int64_t numerics() const { return static_cast<int64_t>(schema_.numeric.size()); }
  int64_t columns() const { return static_cast<int64_t>(schema_.categorical.size()); }

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

  void apply_rows(const Tensors& gradients, Times& times) {
    if (gradients.empty()) return;
    StopWatch watch;
    tables_->apply(gradients);
    times.sparse_adam += watch.lap();
  }
  void apply_dense(const Tensors& gradients, Times& times) {
    StopWatch watch;
    auto gradient = gradients.begin();
    for (Tensor& parameter : parameters()) parameter.mutable_grad() = *gradient++;
    adam_->step();
    for (Tensor& parameter : parameters()) parameter.mutable_grad() = Tensor();
    times.dense_adam += watch.lap();
  }

  Tensor loss_of(const data::Minibatch& m, const Tensors& fields) {
    const Tensor out = logits(view_of(m.numeric, {m.examples, numerics()}), fields);
    return torch::binary_cross_entropy_with_logits(out, view_of(m.labels, {m.examples, 1}));
  }

  const AdamSettings settings_;
  const data::FeatureSchema schema_;
  const double late_;
  std::mt19937_64 random_;
  Tensors held_;  // of the rows of the minibatch before, where they are late
  const std::unique_ptr<PlainTables> tables_;
  std::unique_ptr<torch::optim::Adam> adam_;  // of the dense parameters
};

std::vector<int64_t> layers(const job::Job& job, const char* key, std::vector<int64_t> otherwise,
                            int64_t inputs, int64_t outputs) {
  std::vector<int64_t> sizes = job.model.params.value(key, std::move(otherwise));
  sizes.insert(sizes.begin(), inputs);
  sizes.push_back(outputs);
  return sizes;
}

int64_t dim_of(const job::Job& job, int64_t otherwise) { return job.model.params.value("dim", otherwise); }

class PlainWideDeep final : public Plain {
 public:
  PlainWideDeep(const job::Job& job, const Options& options)
      : Plain(job, options, {{1, true}, {dim_of(job, 8), false}}) {
    const int64_t dim = dim_of(job, 8);
    wide_ = register_module("wide_numeric",
                            torch::nn::Linear(torch::nn::LinearOptions(numerics(), 1).bias(false)));
    mlp_ = register_module("mlp", PlainMlp(layers(job, "hidden", {64, 32}, columns() * dim + numerics(), 1)));
    end(job);
  }

 private:
  Tensor logits(const Tensor& numeric, const Tensors& fields) override {
    return mlp_->forward(at::cat({fields[1].flatten(1), numeric}, 1)) + fields[0].sum(1) +
           wide_->forward(numeric);
  }
  torch::nn::Linear wide_{nullptr};
  PlainMlp mlp_{nullptr};
};

class PlainDeepFm final : public Plain {
 public:
  PlainDeepFm(const job::Job& job, const Options& options)
      : Plain(job, options, {{1, true}, {dim_of(job, 8), false}}) {
    const int64_t dim = dim_of(job, 8);
    first_ = register_module("numeric_first",
                             torch::nn::Linear(torch::nn::LinearOptions(numerics(), 1).bias(false)));
    factors_ = register_parameter("numeric_factors", torch::empty({numerics(), dim}));
    mlp_ =
        register_module("mlp", PlainMlp(layers(job, "hidden", {64, 32}, (columns() + numerics()) * dim, 1)));
    end(job);
  }

 private:
  Tensor logits(const Tensor& numeric, const Tensors& fields) override {
    const SecondOrder all = second_order({fields[1]}, numeric, factors_);
    return mlp_->forward(all.fields.flatten(1)) + all.sum + fields[0].sum(1) + first_->forward(numeric);
  }
  torch::nn::Linear first_{nullptr};
  Tensor factors_;
  PlainMlp mlp_{nullptr};
};

class PlainDlrm final : public Plain {
 public:
  PlainDlrm(const job::Job& job, const Options& options) : Plain(job, options, {{dim_of(job, 16), false}}) {
    const int64_t dim = dim_of(job, 16), pairs = columns() * (columns() + 1) / 2;
    bottom_ = register_module("bottom", PlainMlp(layers(job, "bottom", {64}, numerics(), dim)));
    top_ = register_module("top", PlainMlp(layers(job, "top", {64, 32}, pairs + dim, 1)));
    end(job);
  }

 private:
  Tensor logits(const Tensor& numeric, const Tensors& fields) override {
    const Tensor bottom = bottom_->forward(numeric).relu();
    return top_->forward(pair_products({bottom, fields[0]}, bottom));
  }
  PlainMlp bottom_{nullptr}, top_{nullptr};
};

}  // namespace

std::unique_ptr<PlainModel> PlainModel::make(const job::Job& job, const Options& options) {
  seed_torch(job.job.seed);
  if (job.model.name == "wide_deep") return std::make_unique<PlainWideDeep>(job, options);
  if (job.model.name == "deepfm") return std::make_unique<PlainDeepFm>(job, options);
  if (job.model.name == "dlrm") return std::make_unique<PlainDlrm>(job, options);
  fail(ErrorCode::kInvalid, "there is no plain model '{}'", job.model.name);
}

}  // namespace embers
