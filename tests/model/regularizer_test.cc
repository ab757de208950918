// Regularizers of Embedding layers, against the same penalty on a dense table.
#include "model/layers/regularizer.h"

#include <gtest/gtest.h>

#include "tests/model/toy.h"

namespace embers {
namespace {

using toy::ids_of;
using toy::Ints;

constexpr int64_t kRows = 8, kDim = 3;
constexpr Regularizer kBoth{0.1, 0.25};

// [N, 1], so that the loss is the sum of all.
torch::Tensor per_example(const torch::Tensor& t) { return t.flatten(1).sum(1, true); }

struct Trained {
  StepResult result;
  toy::Server server;
};

Trained train(const std::vector<EmbeddingOptions>& layers,
              const std::function<torch::Tensor(std::vector<Embedding>&, const Batch&)>& forward,
              const Ints& ids) {
  std::vector<Embedding> made;
  auto model = std::make_shared<toy::ToyModel>(
      [&](toy::ToyModel&, const Batch& batch) { return forward(made, batch); });
  for (const EmbeddingOptions& options : layers)
    made.push_back(model->add(fmt::format("l{}", made.size()), Embedding(options)));
  const auto runner = ModelRunner::make(toy::job_of({toy::feature("a", KeyKind::kInt64)}), model);
  Trained trained;
  const data::Minibatch minibatch = toy::minibatch_of({ids_of(ids)});
  trained.result = toy::train(*runner, trained.server, minibatch);
  return trained;
}

// Rows 0 .. kRows-1 of table 0 as a leaf.
torch::Tensor dense_table() { return toy::Server::dense(0, kRows, kDim).requires_grad_(true); }

torch::Tensor rows_of(const torch::Tensor& table, const std::vector<int64_t>& keys) {
  return table.index_select(0, torch::tensor(keys));
}

TEST(Regularizer, HasTheFactorsOfKeras) {
  const torch::Tensor x = torch::tensor({-2.0f, 3.0f});
  EXPECT_FLOAT_EQ(l1().penalty(x).item<float>(), 0.05f);
  EXPECT_FLOAT_EQ(l2().penalty(x).item<float>(), 0.13f);
  EXPECT_FLOAT_EQ(l1_l2(0.5, 2).penalty(x).item<float>(), 2.5f + 26);
  EXPECT_FALSE(Regularizer{});
}

TEST(Regularizer, OfRowsCountsEachTouchedRowOnce) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"}, Combiner::kSum);
  options.embeddings_regularizer = kBoth;
  const auto trained =
      train({options},
            [](auto& layers, const Batch& batch) { return per_example(layers[0]->forward(batch.ids("a"))); },
            {{1, 1, 2}, {2, 5}});
  const torch::Tensor table = dense_table();
  const torch::Tensor loss = rows_of(table, {1, 1, 2, 2, 5}).sum() + kBoth.penalty(rows_of(table, {1, 2, 5}));
  loss.backward();
  ASSERT_EQ(trained.result.gradients.size(), 1u);
  toy::expect_slices_equal(trained.result.gradients[0], table.grad());
  EXPECT_NEAR(trained.result.loss_sum, 2 * loss.item<double>(), 1e-4);
}

TEST(Regularizer, OfRowsCountsOnceWhatSeveralLayersAndLateCallsTouch) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"}, Combiner::kSum);
  options.embeddings_regularizer = kBoth;
  const auto trained =
      train({options, options},
            [](auto& layers, const Batch& batch) {
              const torch::Tensor late = torch::tensor({{2, 6}, {6, 7}}, torch::kLong);
              return per_example(layers[0]->forward(batch.ids("a")) + layers[1]->forward(late));
            },
            {{1}, {2}});
  const torch::Tensor table = dense_table();
  (rows_of(table, {1, 2, 2, 6, 6, 7}).sum() + kBoth.penalty(rows_of(table, {1, 2, 6, 7}))).backward();
  ASSERT_EQ(trained.result.gradients.size(), 1u);
  toy::expect_slices_equal(trained.result.gradients[0], table.grad());
}

TEST(Regularizer, OfActivityIsDividedByTheExamples) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"});
  options.activity_regularizer = kBoth;
  const auto trained =
      train({options},
            [](auto& layers, const Batch& batch) { return per_example(layers[0]->forward(batch.ids("a"))); },
            {{1, 2}, {1, 3}, {4, 4}});
  const torch::Tensor table = dense_table();
  const torch::Tensor out = rows_of(table, {1, 2, 1, 3, 4, 4});
  (out.sum() + kBoth.penalty(out) / 3).backward();
  ASSERT_EQ(trained.result.gradients.size(), 1u);
  toy::expect_slices_equal(trained.result.gradients[0], table.grad());
}

TEST(Regularizer, LayersOfOneTableMustAgree) {
  EmbeddingOptions plain = toy::options("t", kDim, {"a"}, Combiner::kSum), other = plain;
  other.embeddings_regularizer = kBoth;
  toy::expect_invalid({"'l0'", "'l1'", "'t'", "embeddings_regularizer"}, [&] {
    train({plain, other}, nullptr, {{1}});
  });
  other = plain;
  other.embeddings_constraint = {"non_neg", {}};
  toy::expect_invalid({"'l0'", "'l1'", "'t'", "non_neg"}, [&] { train({plain, other}, nullptr, {{1}}); });
}

TEST(InputLength, IsTheOnlyNumberOfIdsThatALayerTakes) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"});
  options.input_length = 2;
  const auto run = [&](const Ints& ids, const torch::Tensor& late) {
    train(
        {options},
        [&](auto& layers, const Batch& batch) {
          if (late.defined()) layers[0]->forward(late);
          return per_example(layers[0]->forward(batch.ids("a")));
        },
        ids);
  };
  run({{1, 2}, {3, 4}}, {});
  toy::expect_invalid({"'t'", "2 ids", "given 3"}, [&] { run({{1, 2, 3}}, {}); });
  toy::expect_invalid({"'t'", "2 ids", "varying"}, [&] { run({{1, 2, 3}, {1}}, {}); });
  toy::expect_invalid({"'t'", "2 ids", "given 3"}, [&] {
    run({{1, 2}}, torch::zeros({4, 3}, torch::kLong));
  });
}

}  // namespace
}  // namespace embers
