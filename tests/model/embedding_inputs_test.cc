// What Embedding layers take: examples without ids, ids to prune, other integers, sparse tensors, weights;
// and the masks of ids and the names of tables that they give.
#include "tests/model/embedding_testing.h"

namespace embers {
namespace {

// Rows of examples, the default row where there are none.
torch::Tensor rows_or_default(const torch::Tensor& weight, const Ints& examples, int64_t default_id) {
  Ints filled = examples;
  for (std::vector<int64_t>& ids : filled)
    if (ids.empty()) ids.push_back(default_id);
  return reference(weight, filled, 1);
}

TEST_F(Lookup, GivesExamplesWithoutIdsTheDefaultRow) {
  const Ints examples{{1, 2}, {}, {2}, {}, {7}};
  EmbeddingOptions options = toy::options("t", kDim, {"a"}, Combiner::kMean);
  options.default_id = 7;
  for (const bool late : {false, true}) {
    layers_.clear();
    make({options}, [&](toy::ToyModel&, const Batch& batch) {
      const Ids copy = batch.ids("a");
      seen_ = layers_[0]->forward(late ? copy : batch.ids("a"));
      return seen_ * weights_like(seen_);
    });
    const StepResult result = train({ids_of<int64_t>(examples), ids_of<int64_t>(Ints(5))});
    torch::Tensor weight = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
    const torch::Tensor wanted = rows_or_default(weight, examples, 7);
    EXPECT_TRUE(at::allclose(seen_, wanted));
    (wanted * weights_like(wanted)).sum().backward();
    toy::expect_slices_equal(result.gradients.at(0), weight.grad());
  }
}

TEST_F(Lookup, PullsTheDefaultRowOnlyWhereAnExampleNeedsIt) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"}, Combiner::kSum);
  options.default_id = 7;
  make({options}, [&](toy::ToyModel&, const Batch& batch) { return layers_[0]->forward(batch.ids("a")); });
  EXPECT_EQ(train({ids_of<int64_t>(Ints{{1}, {2}}), ids_of<int64_t>(Ints(2))}).gradients.at(0).keys,
            Keys(std::vector<int64_t>{1, 2}));
  EXPECT_EQ(train({ids_of<int64_t>(Ints{{}, {}}), ids_of<int64_t>(Ints(2))}).gradients.at(0).keys,
            Keys(std::vector<int64_t>{7}));
  EXPECT_TRUE(server_.late_keys.empty());
}

TEST_F(Lookup, GivesTablesOfStringsADefaultRowToo) {
  EmbeddingOptions options("t", kDim);  // takes the kind of its keys from the feature
  options.features = {"s"};
  options.combiner = Combiner::kMean;
  options.default_id = "none";
  options.mask_zero = true;
  make({options},
       [&](toy::ToyModel&, const Batch& batch) { return seen_ = layers_[0]->forward(batch.ids("s")); },
       {toy::feature("s", KeyKind::kBytes)});
  const StepResult result = train({ids_of<std::string>(Strings{{"x"}, {""}, {}})});
  const torch::Tensor weight = toy::Server::dense(0, 5, kDim);
  EXPECT_TRUE(at::equal(seen_, at::stack({weight[1], weight[4], weight[4]})));
  EXPECT_EQ(result.gradients.at(0).keys, Keys(std::vector<std::string>{"x", "none"}));
}

TEST_F(Lookup, PrunesInvalidIdsWhereAsked) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"}, Combiner::kMean);
  for (const bool prune : {false, true}) {
    options.prune_invalid_ids = prune;
    layers_.clear();
    make({options},
         [&](toy::ToyModel&, const Batch& batch) { return seen_ = layers_[0]->forward(batch.ids("a")); });
    Ids ids = ids_of<int64_t>(Ints{{3, -2}, {-1}});
    ids.weights = {1, 1, -2};
    const StepResult result = train({ids, ids_of<int64_t>(Ints(2))});
    const size_t keys = result.gradients.at(0).keys.size();
    EXPECT_EQ(keys, prune ? 1u : 3u) << "neither pulled nor pushed, or keys like any other";
    if (!prune) continue;
    EXPECT_TRUE(at::equal(seen_, at::stack({toy::Server::dense(0, kRows, kDim)[3], torch::zeros({kDim})})));
  }
}

TEST_F(Lookup, TakesInt32IdsAndSmallerOnes) {
  make({toy::options("t", kDim, {}, Combiner::kSum)}, [&](toy::ToyModel&, const Batch&) {
    const torch::Tensor ids = torch::tensor({1, 2, 2, 4}).view({2, 2});
    seen_ = layers_[0]->forward(ids.to(torch::kInt));
    EXPECT_TRUE(at::equal(layers_[0]->forward(ids.to(torch::kByte)), seen_));
    EXPECT_TRUE(at::equal(layers_[0]->forward(ids), seen_));
    return seen_;
  });
  train({ids_of<int64_t>(Ints(2)), ids_of<int64_t>(Ints(2))});
  EXPECT_TRUE(at::allclose(seen_, reference(toy::Server::dense(0, kRows, kDim), Ints{{1, 2}, {2, 4}}, 0)));
}

TEST_F(Lookup, TakesSparseTensors) {
  SparseIdTensors ids{torch::tensor({0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 2}).view({4, 3}),
                      torch::tensor({3, 5, 5, 7}, torch::kInt),
                      {2, 2, 4}};
  for (const bool weighted : {false, true}) {
    ids.weights =
        weighted ? torch::tensor({0.5f, 2.0f, 1.0f, 4.0f}).set_requires_grad(true) : torch::Tensor();
    layers_.clear();
    make({toy::options("t", kDim, {}, Combiner::kMean)}, [&](toy::ToyModel&, const Batch&) {
      seen_ = layers_[0]->forward(ids);
      return (seen_ * weights_like(seen_)).flatten(0, 1);
    });
    const StepResult result = train({ids_of<int64_t>(Ints(4)), ids_of<int64_t>(Ints(4))});
    EXPECT_EQ(seen_.sizes(), (std::vector<int64_t>{2, 2, kDim}));
    // The operators give the expected result.
    torch::Tensor table = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
    SparseIdTensors same = ids;
    if (weighted) same.weights = ids.weights.detach().clone().set_requires_grad(true);
    const torch::Tensor wanted = safe_embedding_lookup_sparse({{table}}, same, {Combiner::kMean, {}, {}, {}});
    EXPECT_TRUE(at::equal(seen_, wanted));
    (wanted * weights_like(wanted)).sum().backward();
    toy::expect_slices_equal(result.gradients.at(0), table.grad().to_dense());
    if (weighted) {
      EXPECT_TRUE(at::allclose(ids.weights.grad(), same.weights.grad()));
    }
  }
}

TEST_F(Lookup, RefusesSparseTensorsThatDoNotFit) {
  SparseIdTensors ids{torch::tensor({0, 0, 3, 0}).view({2, 2}), torch::tensor({1, 2}), {2, 2}};
  make({toy::options("t", kDim, {}, Combiner::kSum), toy::options("u", kDim, {})},
       [&](toy::ToyModel&, const Batch&) { return layers_[0]->forward(ids); });
  const auto run = [&] { train({ids_of<int64_t>(Ints(4)), ids_of<int64_t>(Ints(4))}); };
  toy::expect_invalid({"[3, 0]", "outside"}, run);
  ids.dense_shape = {4};
  toy::expect_invalid({"indices", "1 dimensions"}, run);
  ids.dense_shape = {4, 2};
  EXPECT_NO_THROW(run());
  ids.weights = torch::ones({3});
  toy::expect_invalid({"'t'", "weights", "[2]", "[3]"}, run);
  ids.weights = torch::Tensor();
  ids.values = torch::tensor({1.5, 2.5});
  toy::expect_invalid({"'t'", "int64"}, run);
  toy::expect_invalid({"'u'", "no combiner"}, [&] {
    layers_[0] = layers_[1];
    ids.values = torch::tensor({1, 2});
    run();
  });
}

TEST_F(Lookup, TakesWeightsWithTensorsAndGivesThemAGradient) {
  const torch::Tensor ids = torch::tensor({3, 5, 5, 0, 7, 7}).view({3, 2});
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    for (const double max_norm : {0.0, 0.7}) {
      torch::Tensor weights =
          torch::tensor({0.5f, 2.0f, 1.0f, 4.0f, 0.25f, 3.0f}).view({3, 2}).set_requires_grad(true);
      EmbeddingOptions options = toy::options("t", kDim, {}, combiner);
      options.max_norm = max_norm;
      layers_.clear();
      make({options}, [&](toy::ToyModel&, const Batch&) {
        seen_ = layers_[0]->forward(ids, weights);
        return seen_ * weights_like(seen_);
      });
      const StepResult result = train({ids_of<int64_t>(Ints(3)), ids_of<int64_t>(Ints(3))});
      torch::Tensor table = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
      const torch::Tensor same = weights.detach().clone().set_requires_grad(true);
      torch::Tensor rows = at::embedding(table, ids);
      if (max_norm > 0) rows = rows * (max_norm / rows.norm(2, -1, true).clamp_min(max_norm));
      torch::Tensor wanted = (rows * same.unsqueeze(2)).sum(1);
      if (combiner == Combiner::kMean) wanted = wanted / same.sum(1, true);
      if (combiner == Combiner::kSqrtN) wanted = wanted / same.square().sum(1, true).sqrt();
      EXPECT_TRUE(at::allclose(seen_, wanted, 1e-5, 1e-6));
      (wanted * weights_like(wanted)).sum().backward();
      toy::expect_slices_equal(result.gradients.at(0), table.grad());
      EXPECT_TRUE(at::allclose(weights.grad(), same.grad(), 1e-4, 1e-5)) << weights.grad() << same.grad();
    }
  }
}

TEST_F(Lookup, RefusesWeightsThatDoNotFitATensor) {
  torch::Tensor weights = torch::ones({2});
  make({toy::options("t", kDim, {}, Combiner::kSum), toy::options("u", kDim, {})},
       [&](toy::ToyModel&, const Batch&) {
         const torch::Tensor ids = torch::tensor({1, 2}).view({2, 1});
         return layers_[0]->forward(ids, weights);
       });
  const auto run = [&] { train({ids_of<int64_t>(Ints(2)), ids_of<int64_t>(Ints(2))}); };
  toy::expect_invalid({"'t'", "float32", "[2, 1]", "[2]"}, run);
  weights = torch::ones({2, 1}, torch::kDouble);
  toy::expect_invalid({"'t'", "float32"}, run);
  weights = torch::ones({2, 1});
  EXPECT_NO_THROW(run());
  layers_[0] = layers_[1];
  toy::expect_invalid({"'u'", "no combiner"}, run);
}

TEST_F(Lookup, MasksIdsOfTheBatch) {
  EmbeddingOptions options = toy::options("t", kDim, {});
  options.mask_zero = true;
  const Embedding layer(options);
  EXPECT_TRUE(at::equal(layer->compute_mask(ids_of<int64_t>(Ints{{0, 4}, {5, 0}})),
                        torch::tensor({false, true, true, false}).view({2, 2})));
  EXPECT_TRUE(at::equal(layer->compute_mask(ids_of<int64_t>(Ints{{0}, {}, {5, -1}})),
                        torch::tensor({false, true, true})))
      << "one for each id of a ragged batch";
  EXPECT_TRUE(at::equal(layer->compute_mask(ids_of<std::string>(Strings{{"", "0"}, {"a"}})),
                        torch::tensor({false, true, true})));
  EXPECT_FALSE(Embedding(toy::options("t", kDim, {}))->compute_mask(ids_of<int64_t>(Ints{{0}})).defined());
}

TEST_F(Lookup, NamesATableThatHasNoName) {
  EmbeddingOptions options(kDim);
  EXPECT_EQ(Embedding(options)->table(), "");
  toy::expect_invalid({"without a name", "outside"}, [&] {
    options.key_kind = KeyKind::kInt64;
    Embedding(options)->forward(torch::tensor({1}));
  });
  options.features = {"a"};
  make({options, options}, [&](toy::ToyModel&, const Batch& batch) {
    return layers_[0]->forward(batch.ids("a")) + layers_[1]->forward(batch.ids("a"));
  });
  train({ids_of<int64_t>(Ints{{1}, {2}}), ids_of<int64_t>(Ints(2))});
  EXPECT_EQ(layers_[0]->table(), "embedding");
  EXPECT_EQ(layers_[1]->table(), "embedding_1");
  EXPECT_EQ(layers_[1]->key_kind(), KeyKind::kInt64);
}

}  // namespace
}  // namespace embers
