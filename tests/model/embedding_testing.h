#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "model/layers/embedding.h"
#include "tests/model/toy.h"

// What tests of Embedding layers share.
namespace embers {

using toy::ids_of;
using toy::Ints;
using toy::Strings;

inline constexpr int64_t kRows = 20, kDim = 3;

// A runner around one model whose forward is `forward`, with one layer per entry of `layers`, named l0, l1,
// ...
class Lookup : public testing::Test {
 protected:
  void make(const std::vector<EmbeddingOptions>& layers, toy::ToyModel::Forward forward,
            const std::vector<job::Feature>& features = {toy::feature("a", KeyKind::kInt64),
                                                         toy::feature("b", KeyKind::kInt64)}) {
    auto model = std::make_shared<toy::ToyModel>(std::move(forward));
    for (const EmbeddingOptions& options : layers)
      layers_.push_back(model->add(fmt::format("l{}", layers_.size()), Embedding(options)));
    runner_ = ModelRunner::make(toy::job_of(features), model);
  }
  StepResult train(std::vector<Ids> ids) {
    minibatch_ = toy::minibatch_of(std::move(ids));
    return toy::train(*runner_, server_, minibatch_);
  }

  std::vector<Embedding> layers_;
  std::unique_ptr<ModelRunner> runner_;
  toy::Server server_;
  data::Minibatch minibatch_;
  torch::Tensor seen_;  // what a model's forward wants to show
};

// Weights of the loss, so that every output element has a gradient of its own.
inline torch::Tensor weights_like(const torch::Tensor& t) {
  return at::arange(1, t.numel() + 1).to(torch::kFloat).view(t.sizes()) / 7;
}

// Dense reference of a combiner over examples' ids, which multiplies sums by count^-power.
inline torch::Tensor reference(const torch::Tensor& weight, const Ints& examples, double power) {
  std::vector<torch::Tensor> rows;
  for (const std::vector<int64_t>& ids : examples) {
    const auto n = static_cast<double>(ids.size());
    rows.push_back(ids.empty() ? torch::zeros({weight.size(1)})
                               : weight.index_select(0, torch::tensor(ids)).sum(0) * std::pow(n, -power));
  }
  return at::stack(rows);
}

}  // namespace embers
