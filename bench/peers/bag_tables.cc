#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/embedding.h>

#include <cmath>
#include <utility>

#include "bench/peers/plain_tables.h"

namespace embers {
namespace {

using at::Tensor;

// torch.optim.SparseAdam of one table.
class SparseAdam {
 public:
  SparseAdam(const AdamSettings& settings, const Tensor& parameter)
      : s_(settings), average_(at::zeros_like(parameter)), squares_(at::zeros_like(parameter)) {}

  void step(Tensor parameter, const Tensor& of_minibatch) {
    const torch::NoGradGuard no_grad;
    const Tensor gradient = of_minibatch.coalesce();
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

class BagTables final : public PlainTables {
 public:
  BagTables(const data::FeatureSchema& schema, const std::vector<Group>& groups, const AdamSettings& settings)
      : features_(schema.categorical.size()) {
    for (const Group& group : groups)
      for (const data::CategoricalFeature& feature : schema.categorical) {
        torch::nn::EmbeddingBag table(
            torch::nn::EmbeddingBagOptions(feature.buckets, group.dim).sparse(true).mode(torch::kSum));
        const torch::NoGradGuard no_grad;
        group.zero ? table->weight.zero_() : table->weight.uniform_(-0.05, 0.05);
        tables_.push_back(table);
        adam_.emplace_back(settings, table->weight);
      }
  }

  Tensors lookup(const data::Minibatch& m, std::shared_ptr<Prepared>) override {
    outputs_.clear();
    for (size_t t = 0; t < tables_.size(); t += features_) {
      Tensors of_group;
      for (size_t f = 0; f < features_; ++f) {
        const Ids& ids = m.ids[f];
        const auto keys = ids.keys.view().ints;
        const Tensor rows = torch::from_blob(const_cast<int64_t*>(keys.data()),
                                             {static_cast<int64_t>(keys.size())}, torch::kLong);
        const Tensor offsets =
            torch::from_blob(const_cast<int64_t*>(ids.offsets.data()), {ids.examples()}, torch::kLong);
        of_group.push_back(tables_[t + f]->forward(rows, offsets));
      }
      outputs_.push_back(at::stack(of_group, 1));
    }
    Tensors leaves;
    for (const Tensor& output : outputs_) leaves.push_back(output.detach().set_requires_grad(true));
    return leaves;
  }

  Tensors gradients(const Tensors& of_lookup) override {
    torch::autograd::backward(outputs_, of_lookup);
    outputs_.clear();
    Tensors gradients;
    // Coalesced, they no longer point to the minibatch's ids.
    for (torch::nn::EmbeddingBag& table : tables_)
      gradients.push_back(std::exchange(table->weight.mutable_grad(), Tensor()).coalesce());
    return gradients;
  }

  void apply(const Tensors& gradients) override {
    for (size_t t = 0; t < tables_.size(); ++t) adam_[t].step(tables_[t]->weight, gradients[t]);
  }

 private:
  const size_t features_;
  std::vector<torch::nn::EmbeddingBag> tables_;  // group after group
  std::vector<SparseAdam> adam_;
  Tensors outputs_;  // of the last lookup, with the graph
};

}  // namespace

std::unique_ptr<PlainTables> PlainTables::bags(const data::FeatureSchema& schema,
                                               const std::vector<Group>& groups,
                                               const AdamSettings& settings) {
  return std::make_unique<BagTables>(schema, groups, settings);
}

}  // namespace embers
