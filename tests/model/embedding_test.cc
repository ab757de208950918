// Lookups of Embedding layers inside a training pass, against dense libtorch arithmetic on the same rows.
#include "tests/model/embedding_testing.h"

namespace embers {
namespace {

TEST_F(Lookup, MatchesADenseEmbeddingWithoutCombiner) {
  make({toy::options("t", kDim, {"a"})}, [&](toy::ToyModel&, const Batch& batch) {
    seen_ = layers_[0]->forward(batch.ids("a"));
    return seen_ * weights_like(seen_);
  });
  const StepResult result =
      train({ids_of<int64_t>(Ints{{3, 5}, {5, 5}, {0, 19}}), ids_of<int64_t>(Ints{{}, {}, {}})});
  torch::Tensor weight = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
  const torch::Tensor wanted = at::embedding(weight, torch::tensor({3, 5, 5, 5, 0, 19}).view({3, 2}));
  EXPECT_EQ(seen_.sizes(), (std::vector<int64_t>{3, 2, kDim}));
  EXPECT_TRUE(at::equal(seen_, wanted));
  (wanted * weights_like(wanted)).sum().backward();
  ASSERT_EQ(result.gradients.size(), 1u);
  toy::expect_slices_equal(result.gradients[0], weight.grad());
  EXPECT_TRUE(server_.late_keys.empty());
}

TEST_F(Lookup, MatchesDenseArithmeticForEveryCombinerAndRaggedIds) {
  const Ints examples{{3, 5, 3}, {}, {5}, {0, 1, 2, 3}, {7}};
  for (const auto& [combiner, power] :
       {std::pair{Combiner::kSum, 0.0}, {Combiner::kMean, 1.0}, {Combiner::kSqrtN, 0.5}}) {
    layers_.clear();
    make({toy::options("t", kDim, {"a"}, combiner)}, [&](toy::ToyModel&, const Batch& batch) {
      seen_ = layers_[0]->forward(batch.ids("a"));
      return seen_ * weights_like(seen_);
    });
    const StepResult result = train({ids_of<int64_t>(examples), ids_of<int64_t>(Ints(5))});
    torch::Tensor weight = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
    const torch::Tensor wanted = reference(weight, examples, power);
    EXPECT_TRUE(at::allclose(seen_, wanted));
    (wanted * weights_like(wanted)).sum().backward();
    toy::expect_slices_equal(result.gradients.at(0), weight.grad());
  }
}

TEST_F(Lookup, WorksWithStringKeys) {
  make({toy::options("t", kDim, {"s"}, Combiner::kMean, KeyKind::kBytes)},
       [&](toy::ToyModel&, const Batch& batch) { return seen_ = layers_[0]->forward(batch.ids("s")); },
       {toy::feature("s", KeyKind::kBytes)});
  const StepResult result = train({ids_of<std::string>(Strings{{"x", "yy"}, {"x"}})});
  const torch::Tensor weight = toy::Server::dense(0, 3, kDim);
  EXPECT_TRUE(at::allclose(seen_, at::stack({(weight[1] + weight[2]) / 2, weight[1]})));
  EXPECT_EQ(result.gradients.at(0).keys, Keys(std::vector<std::string>{"x", "yy"}));
  toy::expect_near({result.gradients[0].values.data(), result.gradients[0].values.data() + 6},
                   torch::tensor({1.5, 1.5, 1.5, .5, .5, .5}));
}

TEST_F(Lookup, AddsUpTheGradientsOfSeveralCallsAndLayersOnOneTable) {
  // Layer 0 reads a twice and b once, layer 1 (same table, other combiner) reads a: the table sees all of
  // them.
  make({toy::options("t", kDim, {"a", "b"}, Combiner::kSum), toy::options("t", kDim, {"a"}, Combiner::kMean)},
       [&](toy::ToyModel&, const Batch& batch) {
         const torch::Tensor once = layers_[0]->forward(batch.ids("a"));
         const torch::Tensor again = layers_[0]->forward(batch.ids("a"));
         const torch::Tensor b = layers_[0]->forward(batch.ids("b"));
         const torch::Tensor mean = layers_[1]->forward(batch.ids("a"));
         return once * weights_like(once) + again * 2 + b * once + mean * 3;
       });
  const Ints a{{1, 2}, {2, 3, 2}}, b{{2}, {9, 1}};
  const StepResult result = train({ids_of<int64_t>(a), ids_of<int64_t>(b)});
  ASSERT_EQ(runner_->spec().tables.size(), 1u);
  torch::Tensor weight = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
  const torch::Tensor once = reference(weight, a, 0);
  (once * weights_like(once) + once * 2 + reference(weight, b, 0) * once + reference(weight, a, 1) * 3)
      .sum()
      .backward();
  ASSERT_EQ(result.gradients.size(), 1u);
  toy::expect_slices_equal(result.gradients[0], weight.grad());
  EXPECT_EQ(result.gradients[0].keys, Keys(std::vector<int64_t>{1, 2, 3, 9}));
}

TEST_F(Lookup, FeedsOneFeatureToSeveralTables) {
  make({toy::options("t", kDim, {"a"}, Combiner::kSum), toy::options("u", 1, {"a"}, Combiner::kSum)},
       [&](toy::ToyModel&, const Batch& batch) {
         return layers_[0]->forward(batch.ids("a")) * layers_[1]->forward(batch.ids("a"));
       });
  const Ints a{{1, 2}, {2}};
  const StepResult result = train({ids_of<int64_t>(a), ids_of<int64_t>(Ints(2))});
  torch::Tensor t = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
  torch::Tensor u = toy::Server::dense(1, kRows, 1).set_requires_grad(true);
  (reference(t, a, 0) * reference(u, a, 0)).sum().backward();
  ASSERT_EQ(result.gradients.size(), 2u);
  EXPECT_EQ(result.gradients[0].table, 0u);
  EXPECT_EQ(result.gradients[1].table, 1u);
  toy::expect_slices_equal(result.gradients[0], t.grad());
  toy::expect_slices_equal(result.gradients[1], u.grad());
}

TEST_F(Lookup, MaskedIdsAreNeitherPulledNorPushedByACombiner) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"}, Combiner::kMean);
  options.mask_zero = true;
  make({options},
       [&](toy::ToyModel&, const Batch& batch) { return seen_ = layers_[0]->forward(batch.ids("a")); });
  const StepResult result = train({ids_of<int64_t>(Ints{{0, 4}, {0, 0}, {4, 5}}), ids_of<int64_t>(Ints(3))});
  const torch::Tensor weight = toy::Server::dense(0, kRows, kDim);
  EXPECT_TRUE(at::allclose(seen_, at::stack({weight[4], torch::zeros({kDim}), (weight[4] + weight[5]) / 2})));
  EXPECT_EQ(result.gradients.at(0).keys, Keys(std::vector<int64_t>{4, 5}));
}

TEST_F(Lookup, MaskedIdsAreLookedUpWithoutCombinerAsInKeras) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"});
  options.mask_zero = true;
  make({options},
       [&](toy::ToyModel&, const Batch& batch) { return seen_ = layers_[0]->forward(batch.ids("a")); });
  train({ids_of<int64_t>(Ints{{0}, {4}}), ids_of<int64_t>(Ints(2))});
  EXPECT_TRUE(at::equal(seen_[0][0], toy::Server::dense(0, kRows, kDim)[0]));
  EXPECT_TRUE(
      at::equal(layers_[0]->compute_mask(torch::tensor({0, 4, -1})), torch::tensor({false, true, true})));
}

TEST_F(Lookup, HasNoMaskUnlessAsked) {
  EXPECT_FALSE(Embedding(toy::options("t", kDim, {}))->compute_mask(torch::tensor({0, 1})).defined());
}

TEST_F(Lookup, PullsIdsLateThatTheModelComputed) {
  make({toy::options("t", kDim, {"a"}, Combiner::kSum), toy::options("t", kDim, {})}, [&](toy::ToyModel&,
                                                                                          const Batch&
                                                                                              batch) {
    const torch::Tensor ahead = layers_[0]->forward(batch.ids("a"));
    seen_ = layers_[1]->forward(torch::tensor({2, 8, 8, 1}).view({2, 2, 1}));  // 1 and 2 are there, 8 is not
    const torch::Tensor again = layers_[1]->forward(torch::tensor({8, 11}));
    return at::cat({(ahead * weights_like(ahead)).flatten(), (seen_ * weights_like(seen_)).flatten(),
                    (again * 5).flatten()})
        .view({2, -1});
  });
  const Ints a{{1, 2}, {2}};
  const StepResult result = train({ids_of<int64_t>(a), ids_of<int64_t>(Ints(2))});
  EXPECT_EQ(server_.late_keys,
            (std::vector<Keys>{Keys(std::vector<int64_t>{8}), Keys(std::vector<int64_t>{11})}));
  EXPECT_EQ(seen_.sizes(), (std::vector<int64_t>{2, 2, 1, kDim}));

  torch::Tensor weight = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
  const torch::Tensor ahead = reference(weight, a, 0);
  const torch::Tensor late = at::embedding(weight, torch::tensor({2, 8, 8, 1}).view({2, 2, 1}));
  EXPECT_TRUE(at::equal(seen_, late));
  const torch::Tensor again = at::embedding(weight, torch::tensor({8, 11}));
  ((ahead * weights_like(ahead)).sum() + (late * weights_like(late)).sum() + (again * 5).sum()).backward();
  ASSERT_EQ(result.gradients.size(), 1u);
  EXPECT_EQ(result.gradients[0].keys, Keys(std::vector<int64_t>{1, 2, 8, 11}));
  toy::expect_slices_equal(result.gradients[0], weight.grad());
}

TEST_F(Lookup, PullsFeaturesLateThatALayerDidNotDeclare) {
  make({toy::options("t", kDim, {"a"}, Combiner::kSum)}, [&](toy::ToyModel&, const Batch& batch) {
    return layers_[0]->forward(batch.ids("a")) + layers_[0]->forward(batch.ids("b")) * 2;
  });
  const Ints a{{1}, {2}}, b{{2, 3}, {}};
  const StepResult result = train({ids_of<int64_t>(a), ids_of<int64_t>(b)});
  EXPECT_EQ(server_.late_keys, (std::vector<Keys>{Keys(std::vector<int64_t>{3})}));
  torch::Tensor weight = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
  (reference(weight, a, 0) + reference(weight, b, 0) * 2).sum().backward();
  toy::expect_slices_equal(result.gradients.at(0), weight.grad());
}

TEST_F(Lookup, CombinesTheLastAxisOfATensor) {
  make({toy::options("t", kDim, {}, Combiner::kMean)}, [&](toy::ToyModel&, const Batch&) {
    return seen_ = layers_[0]->forward(torch::tensor({1, 2, 3, 4, 5, 6, 7, 8}).view({2, 2, 2}));
  });
  const StepResult result = train({ids_of<int64_t>(Ints{{}, {}}), ids_of<int64_t>(Ints(2))});
  const torch::Tensor weight = toy::Server::dense(0, kRows, kDim);
  EXPECT_TRUE(at::allclose(seen_, weight.slice(0, 1, 9).view({2, 2, 2, kDim}).mean(2)));
  EXPECT_EQ(result.gradients.at(0).keys.size(), 8u);
}

TEST_F(Lookup, TakesStridedAndEmptyTensors) {
  make({toy::options("t", kDim, {})}, [&](toy::ToyModel&, const Batch&) {
    seen_ = layers_[0]->forward(torch::tensor({1, 2, 3, 4}).view({2, 2}).t());
    EXPECT_EQ(layers_[0]->forward(torch::zeros({0, 4}, torch::kLong)).sizes(),
              (std::vector<int64_t>{0, 4, kDim}));
    return seen_;
  });
  train({ids_of<int64_t>(Ints{{}, {}}), ids_of<int64_t>(Ints(2))});
  const torch::Tensor weight = toy::Server::dense(0, kRows, kDim);
  EXPECT_TRUE(at::equal(seen_[0][1], weight[3]));
}

TEST_F(Lookup, EvaluationCallsGiveTheSameRowsWithoutGradients) {
  make({toy::options("t", kDim, {"a"}, Combiner::kSum)}, [&](toy::ToyModel&, const Batch& batch) {
    seen_ = layers_[0]->forward(batch.ids("a"));
    return seen_ + layers_[0]->forward(torch::tensor({{4}, {5}}));
  });
  const data::Minibatch minibatch =
      toy::minibatch_of({ids_of<int64_t>(Ints{{1}, {2, 3}}), ids_of<int64_t>(Ints(2))});
  const StepResult result = toy::evaluate(*runner_, server_, minibatch);
  EXPECT_FALSE(seen_.requires_grad());
  EXPECT_TRUE(at::allclose(seen_, reference(toy::Server::dense(0, kRows, kDim), Ints{{1}, {2, 3}}, 0)));
  EXPECT_TRUE(result.gradients.empty());
  EXPECT_EQ(result.scores.size(), 2u);
}

TEST_F(Lookup, TablesThatTheLossDoesNotReachPushNothing) {
  make({toy::options("t", kDim, {"a"}, Combiner::kSum), toy::options("u", kDim, {"a"}, Combiner::kSum)},
       [&](toy::ToyModel&, const Batch& batch) {
         layers_[1]->forward(batch.ids("a"));
         return layers_[0]->forward(batch.ids("a"));
       });
  const StepResult result = train({ids_of<int64_t>(Ints{{1}, {2}}), ids_of<int64_t>(Ints(2))});
  ASSERT_EQ(result.gradients.size(), 1u);
  EXPECT_EQ(result.gradients[0].table, 0u);
}

TEST_F(Lookup, KeysThatACallDidNotUseArePushedWithZeros) {
  make({toy::options("t", kDim, {"a", "b"}, Combiner::kSum)},
       [&](toy::ToyModel&, const Batch& batch) { return layers_[0]->forward(batch.ids("a")); });
  const StepResult result = train({ids_of<int64_t>(Ints{{1}, {2}}), ids_of<int64_t>(Ints{{7}, {}})});
  EXPECT_EQ(toy::by_key(result.gradients.at(0)).at(7), std::vector<float>(kDim, 0));
}

TEST_F(Lookup, RefusesRaggedIdsWithoutCombiner) {
  make({toy::options("t", kDim, {"a"})},
       [&](toy::ToyModel&, const Batch& batch) { return layers_[0]->forward(batch.ids("a")); });
  toy::expect_invalid({"'t'", "combiner"}, [&] {
    train({ids_of<int64_t>(Ints{{1}, {2, 3}}), ids_of<int64_t>(Ints(2))});
  });
}

TEST_F(Lookup, RefusesIdsOfTheOtherKind) {
  make({toy::options("t", kDim, {}, Combiner::kSum, KeyKind::kBytes)},
       [&](toy::ToyModel&, const Batch& batch) { return layers_[0]->forward(batch.ids("a")); });
  toy::expect_invalid({"'t'", "bytes", "int64"}, [&] {
    train({ids_of<int64_t>(Ints{{1}}), ids_of<int64_t>(Ints(1))});
  });
}

TEST_F(Lookup, RefusesTensorsThatAreNotInt64) {
  make({toy::options("t", kDim, {})},
       [&](toy::ToyModel&, const Batch&) { return layers_[0]->forward(torch::tensor({1.5})); });
  toy::expect_invalid({"'t'", "int64"}, [&] {
    train({ids_of<int64_t>(Ints{{1}}), ids_of<int64_t>(Ints(1))});
  });
}

TEST_F(Lookup, RefusesInconsistentIdsThatAModelBuilt) {
  Ids broken = ids_of<int64_t>(Ints{{1, 2}, {3}});
  make({toy::options("t", kDim, {}, Combiner::kSum)},
       [&](toy::ToyModel&, const Batch&) { return layers_[0]->forward(broken); });
  const auto run = [&] { train({ids_of<int64_t>(Ints(2)), ids_of<int64_t>(Ints(2))}); };
  for (const std::vector<int64_t>& offsets :
       {std::vector<int64_t>{}, {0, 2, 99}, {1, 2, 3}, {0, 3, 2, 3}, {0, -5, 3}, {0, 2}}) {
    broken.offsets = offsets;
    toy::expect_invalid({"'t'", "offsets"}, run);
  }
  broken.offsets = {0, 2, 3};
  EXPECT_NO_THROW(run());
}

TEST_F(Lookup, RefusesACallOutsideAPass) {
  Embedding layer(toy::options("t", kDim, {}));
  toy::expect_invalid({"'t'", "outside"}, [&] { layer->forward(torch::tensor({1})); });
  make({toy::options("t", kDim, {"a"}, Combiner::kSum)},
       [&](toy::ToyModel&, const Batch& batch) { return layers_[0]->forward(batch.ids("a")); });
  train({ids_of<int64_t>(Ints{{1}}), ids_of<int64_t>(Ints(1))});
  toy::expect_invalid({"'t'", "outside"}, [&] { layers_[0]->forward(torch::tensor({1})); });
}

TEST_F(Lookup, RefusesALossThatGoesBackToAnEarlierMinibatch) {
  torch::Tensor kept = torch::zeros({2, kDim});
  make({toy::options("t", kDim, {"a"}, Combiner::kSum)},
       [&](toy::ToyModel&, const Batch& batch) { return kept = kept + layers_[0]->forward(batch.ids("a")); });
  const auto run = [&] { train({ids_of<int64_t>(Ints{{1}, {2}}), ids_of<int64_t>(Ints(2))}); };
  run();
  toy::expect_invalid({"earlier minibatch", "detach"}, run);
}

TEST_F(Lookup, WantsRowsOfTheRightSize) {
  make({toy::options("t", kDim, {"a"}, Combiner::kSum)},
       [&](toy::ToyModel&, const Batch& batch) { return layers_[0]->forward(batch.ids("a")); });
  const data::Minibatch minibatch = toy::minibatch_of({ids_of<int64_t>(Ints{{1}}), ids_of<int64_t>(Ints(1))});
  const Lookups lookups = runner_->dedupe(minibatch);
  PulledRows rows;
  toy::expect_thrown(ErrorCode::kInternal, {"tables"},
                     [&] { runner_->train(minibatch, lookups, std::move(rows), server_.late()); });
  PulledRows short_rows;
  short_rows.bets.emplace_back(kDim - 1);
  toy::expect_thrown(ErrorCode::kInternal, {"floats"},
                     [&] { runner_->train(minibatch, lookups, std::move(short_rows), server_.late()); });
}

TEST_F(Lookup, CombinesAllCallsThatWereLookedUpAheadInOneNode) {
  std::vector<EmbeddingOptions> options(4, toy::options("t", kDim, {"a", "b"}, Combiner::kSum));
  options[1].max_norm = 0.5;
  options[2] = toy::options("u", 1, {"a"}, Combiner::kMean);
  options[3] = toy::options("v", 2, {"b"});
  make(options, [&](toy::ToyModel&, const Batch& batch) {
    const torch::Tensor first = layers_[0]->forward(batch.ids("a"));
    EXPECT_EQ(layers_[0]->forward(batch.ids("b")).grad_fn(), first.grad_fn());
    EXPECT_EQ(layers_[1]->forward(batch.ids("a")).grad_fn(), first.grad_fn()) << "with max_norm";
    EXPECT_EQ(layers_[2]->forward(batch.ids("a")).grad_fn(), first.grad_fn()) << "of another table";
    const torch::Tensor none = layers_[3]->forward(batch.ids("b"));  // a view of what was combined
    EXPECT_EQ(none._base().grad_fn(), first.grad_fn()) << "without a combiner";
    return first;
  });
  train({ids_of<int64_t>(Ints{{1}, {2, 3}}), ids_of<int64_t>(Ints{{4}, {5}})});
}

// What a model keeps from an earlier minibatch is not overwritten, even though results are put into memory
// that is used again.
TEST_F(Lookup, ACallWithoutGradientsLeavesTheOthersTheirs) {
  make({toy::options("t", kDim, {"a"}), toy::options("u", kDim, {"b"}, Combiner::kSum)},
       [&](toy::ToyModel&, const Batch& batch) {
         {
           const torch::NoGradGuard none;
           seen_ = layers_[0]->forward(batch.ids("a"));
         }
         EXPECT_FALSE(seen_.requires_grad());
         return layers_[1]->forward(batch.ids("b"));
       });
  const StepResult result = train({ids_of<int64_t>(Ints{{3}, {5}}), ids_of<int64_t>(Ints{{1, 2}, {2}})});
  ASSERT_EQ(result.gradients.size(), 1u);
  toy::expect_slices_equal(result.gradients[0], [] {
    torch::Tensor wanted = torch::zeros({kRows, kDim});
    wanted[1] = 1;
    wanted[2] = 2;
    return wanted;
  }());
}

// Rows are clipped where they were pulled; calls that come later see them as the table has them.
TEST_F(Lookup, ClipsRowsInEachCallByItself) {
  constexpr double kMaxNorm = 0.1;
  EmbeddingOptions options = toy::options("t", kDim, {"a"}, Combiner::kSum);
  options.max_norm = kMaxNorm;
  const Ints a{{3, 5}, {7}, {1}};
  make({options}, [&](toy::ToyModel&, const Batch& batch) {
    const torch::Tensor first = layers_[0]->forward(batch.ids("a"));
    const torch::Tensor again = layers_[0]->forward(batch.ids("a"));
    const torch::Tensor late = layers_[0]->forward(torch::tensor({{5, 9}, {1, 1}, {3, 7}}));
    return first * weights_like(first) + again * 2 + late * 3;
  });
  const StepResult result = train({ids_of<int64_t>(a), ids_of<int64_t>(Ints(3))});
  torch::Tensor weight = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
  const torch::Tensor clipped = weight * (kMaxNorm / weight.norm(2, -1, true).clamp_min(kMaxNorm));
  const torch::Tensor once = reference(clipped, a, 0);
  (once * weights_like(once) + once * 2 + reference(clipped, Ints{{5, 9}, {1, 1}, {3, 7}}, 0) * 3)
      .sum()
      .backward();
  ASSERT_EQ(result.gradients.size(), 1u);
  toy::expect_slices_equal(result.gradients[0], weight.grad());
}

TEST_F(Lookup, ARegularizerSeesRowsAsTheTableHasThem) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"}, Combiner::kSum);
  options.max_norm = 0.1;
  options.embeddings_regularizer = {0, 0.5};
  const Ints a{{3, 5}, {7}};
  make({options}, [&](toy::ToyModel&, const Batch& batch) { return layers_[0]->forward(batch.ids("a")); });
  const StepResult result = train({ids_of<int64_t>(a), ids_of<int64_t>(Ints(2))});
  torch::Tensor weight = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
  const torch::Tensor clipped = weight * (0.1 / weight.norm(2, -1, true).clamp_min(0.1));
  (reference(clipped, a, 0).sum() + 0.5 * weight.index({torch::tensor({3, 5, 7})}).pow(2).sum()).backward();
  toy::expect_slices_equal(result.gradients.at(0), weight.grad());
}

TEST_F(Lookup, ASecondCallDoesNotSeeWhatAModelDidToTheFirstResult) {
  for (const Combiner combiner : {Combiner::kNone, Combiner::kMean}) {
    layers_.clear();
    make({toy::options("t", kDim, {"a"}, combiner)}, [&](toy::ToyModel&, const Batch& batch) {
      torch::Tensor first = layers_[0]->forward(batch.ids("a"));
      const torch::Tensor before = first.detach().clone();
      first.mul_(3);
      seen_ = layers_[0]->forward(batch.ids("a"));
      EXPECT_TRUE(at::equal(seen_, before));
      return first + seen_;
    });
    const StepResult result = train({ids_of<int64_t>(Ints{{3}, {5}}), ids_of<int64_t>(Ints{{}, {}})});
    ASSERT_EQ(result.gradients.size(), 1u);
    torch::Tensor wanted = torch::zeros({kRows, kDim});
    wanted[3] = wanted[5] = 4;
    toy::expect_slices_equal(result.gradients[0], wanted);
    EXPECT_TRUE(server_.late_keys.empty());
  }
}

TEST_F(Lookup, LeavesAloneWhatAModelKeeps) {
  std::vector<torch::Tensor> kept, copies;
  make({toy::options("t", kDim, {"a"}, Combiner::kSum)}, [&](toy::ToyModel&, const Batch& batch) {
    const torch::Tensor out = layers_[0]->forward(batch.ids("a"));
    kept.push_back(out.detach());
    copies.push_back(out.detach().clone());
    return out * 1;
  });
  for (int64_t i = 0; i < 12; ++i) train({ids_of<int64_t>(Ints{{i}, {i + 1}}), ids_of<int64_t>(Ints(2))});
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], copies[i]));
}

TEST(EmbeddingOptions, AreCheckedWhenALayerIsMade) {
  const auto make = [](EmbeddingOptions options) { return [options] { Embedding layer(options); }; };
  EXPECT_NO_THROW(make({"", 4})());
  toy::expect_invalid({"_dense", "reserved"}, make({"_dense", 4}));
  toy::expect_invalid({"'t'", "dim 0"}, make({"t", 0}));
  toy::expect_invalid({"'t'", "dim -1"}, make({"t", -1}));
  toy::expect_invalid({"'t'", "65536"}, make({"t", 65537}));
  EmbeddingOptions options("t", 4);
  options.input_dim = -1;
  toy::expect_invalid({"'t'", "input_dim"}, make(options));
  options = {"t", 4};
  options.prune_invalid_ids = true;
  toy::expect_invalid({"'t'", "prune_invalid_ids", "no combiner"}, make(options));
  options.default_id = 1;
  toy::expect_invalid({"'t'", "default_id", "no combiner"}, make(options));
  options.combiner = Combiner::kSum;
  options.key_kind = KeyKind::kBytes;
  toy::expect_invalid({"'t'", "bytes keys", "default_id", "int64"}, make(options));
  options.max_norm = 1e300;
  toy::expect_invalid({"'t'", "max_norm"}, make(options));
}

}  // namespace
}  // namespace embers
