// Weights of ids and max_norm of an Embedding layer, against tf.nn.embedding_lookup_sparse's definition in
// dense libtorch arithmetic, forward and backward.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/layers/embedding.h"
#include "tests/model/toy.h"

namespace embers {
namespace {

using toy::Ints;
using Weights = std::vector<std::vector<float>>;

constexpr int64_t kRows = 20, kDim = 3;

torch::Tensor loss_weights(const torch::Tensor& t) {
  return at::arange(1, t.numel() + 1).to(torch::kFloat).view(t.sizes()) / 7;
}

Ids weighted(const Ints& examples, const Weights& weights) {
  Ids ids = toy::ids_of<int64_t>(examples);
  for (const auto& example : weights) ids.weights.insert(ids.weights.end(), example.begin(), example.end());
  return ids;
}

// One row of the result, with the rows of weight <= 0 left out unless the combiner is sum.
torch::Tensor reference_row(const torch::Tensor& table, const std::vector<int64_t>& ids,
                            const std::vector<float>& weights, Combiner combiner) {
  torch::Tensor sum = torch::zeros({kDim});
  double total = 0, squares = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const double w = weights.empty() ? 1 : weights[i];
    if (combiner != Combiner::kSum && w <= 0) continue;
    sum = sum + w * table[ids[i]];
    total += w;
    squares += w * w;
  }
  if (combiner == Combiner::kSum || squares == 0) return sum;
  return sum / (combiner == Combiner::kMean ? total : std::sqrt(squares));
}

torch::Tensor reference(const torch::Tensor& table, const Ints& examples, const Weights& weights,
                        Combiner combiner, double max_norm) {
  torch::Tensor rows = table;
  if (max_norm > 0) {
    std::vector<torch::Tensor> clipped;
    for (int64_t r = 0; r < table.size(0); ++r) {
      const torch::Tensor norm = (table[r] * table[r]).sum().sqrt();
      clipped.push_back(norm.item<double>() >= max_norm ? table[r] * (max_norm / norm) : table[r]);
    }
    rows = at::stack(clipped);
  }
  std::vector<torch::Tensor> out;
  for (size_t e = 0; e < examples.size(); ++e)
    out.push_back(
        reference_row(rows, examples[e], weights.empty() ? std::vector<float>() : weights[e], combiner));
  return at::stack(out);
}

class WeightedLookup : public testing::Test {
 protected:
  void make(const EmbeddingOptions& options, bool late = false) {
    auto model = std::make_shared<toy::ToyModel>([this, late](toy::ToyModel&, const Batch& batch) {
      const Ids copy = batch.ids("a");  // ids of another address are looked up during the pass
      seen_ = layer_->forward(late ? copy : batch.ids("a"));
      return seen_ * loss_weights(seen_);
    });
    layer_ = model->add("l", Embedding(options));
    runner_ = ModelRunner::make(toy::job_of({toy::feature("a", KeyKind::kInt64)}), model);
  }
  StepResult train(Ids ids) {
    minibatch_ = toy::minibatch_of({std::move(ids)});
    return toy::train(*runner_, server_, minibatch_);
  }
  // Trains on the ids and compares output and gradient with the reference.
  void expect_reference(const Ints& examples, const Weights& weights, Combiner combiner,
                        double max_norm = 0) {
    const StepResult result = train(weighted(examples, weights));
    torch::Tensor table = toy::Server::dense(0, kRows, kDim).set_requires_grad(true);
    const torch::Tensor wanted = reference(table, examples, weights, combiner, max_norm);
    EXPECT_TRUE(at::allclose(seen_, wanted, 1e-5, 1e-6)) << seen_ << wanted;
    (wanted * loss_weights(wanted)).sum().backward();
    ASSERT_EQ(result.gradients.size(), 1u);
    for (const auto& [key, row] : toy::by_key(result.gradients[0]))
      toy::expect_near(row, table.grad()[key], 1e-4f);
    touched_ = toy::by_key(result.gradients[0]).size();
  }

  Embedding layer_{nullptr};
  std::unique_ptr<ModelRunner> runner_;
  toy::Server server_;
  data::Minibatch minibatch_;
  torch::Tensor seen_;
  size_t touched_ = 0;  // rows that got a gradient
};

const Ints kExamples{{3, 5, 3}, {}, {5}, {0, 1, 2, 3}, {7}};
const Weights kWeights{{0.5, 2, 1}, {}, {3}, {1, 0.25, 4, 2}, {0.125}};

TEST_F(WeightedLookup, MatchesDenseArithmeticForEveryCombiner) {
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    for (const bool late : {false, true}) {
      make(toy::options("t", kDim, {"a"}, combiner), late);
      expect_reference(kExamples, kWeights, combiner);
      expect_reference(kExamples, {}, combiner);
    }
  }
}

TEST_F(WeightedLookup, IdsOfNoWeightAreLeftOutUnlessSummed) {
  const Weights weights{{-1, 2, 0}, {}, {0}, {1, -0.25, 4, 2}, {-3}};
  for (const bool late : {false, true}) {
    make(toy::options("t", kDim, {"a"}, Combiner::kMean), late);
    expect_reference(kExamples, weights, Combiner::kMean);
    EXPECT_EQ(touched_, 4u) << "of 5, 0, 2 and 3: 1 and 7 are never looked up";
    make(toy::options("t", kDim, {"a"}, Combiner::kSqrtN), late);
    expect_reference(kExamples, weights, Combiner::kSqrtN);
    make(toy::options("t", kDim, {"a"}, Combiner::kSum), late);
    expect_reference(kExamples, weights, Combiner::kSum);
    EXPECT_EQ(touched_, 6u);
  }
}

TEST_F(WeightedLookup, MaxNormClipsRowsBeforeTheyAreCombined) {
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    EmbeddingOptions options = toy::options("t", kDim, {"a"}, combiner);
    for (const double max_norm : {0.3, 1.0, 100.0}) {  // the rows' norms are about 1
      options.max_norm = max_norm;
      make(options);
      expect_reference(kExamples, kWeights, combiner, max_norm);
      expect_reference(kExamples, {}, combiner, max_norm);
    }
  }
}

TEST_F(WeightedLookup, MaxNormWorksWithoutCombiner) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"});
  options.max_norm = 0.5;
  make(options);
  const StepResult result = train(toy::ids_of<int64_t>(Ints{{1, 2}, {2, 3}}));
  EXPECT_LE(seen_.norm(2, 2).max().item<double>(), 0.5 + 1e-6);
  EXPECT_EQ(result.gradients.size(), 1u);
}

TEST_F(WeightedLookup, MatchesTheReferenceOnRandomInputs) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    Ints examples(1 + random() % 5);
    Weights weights(examples.size());
    for (size_t e = 0; e < examples.size(); ++e) {
      for (size_t i = random() % 5; i > 0; --i) {
        examples[e].push_back(static_cast<int64_t>(random() % kRows));
        weights[e].push_back(static_cast<float>(static_cast<int>(random() % 9) - 2) / 4);
      }
    }
    examples[0].push_back(1);
    weights[0].push_back(1);
    const auto combiner = static_cast<Combiner>(1 + random() % 3);
    EmbeddingOptions options = toy::options("t", kDim, {"a"}, combiner);
    options.max_norm = random() % 2 == 0 ? 0 : 0.7;
    make(options, random() % 2 == 0);
    expect_reference(examples, weights, combiner, options.max_norm);
  }
}

TEST_F(WeightedLookup, RefusesWeightsThatDoNotFit) {
  make(toy::options("t", kDim, {"a"}, Combiner::kSum));
  Ids ids = weighted({{1, 2}}, {{1, 2}});
  ids.weights.pop_back();
  toy::expect_invalid({"'t'", "1 weights for 2 ids"}, [&] { train(ids); });
  make(toy::options("t", kDim, {"a"}));
  toy::expect_invalid({"'t'", "has no combiner"}, [&] { train(weighted({{1, 2}}, {{1, 2}})); });
}

TEST_F(WeightedLookup, RefusesAMaxNormThatIsNone) {
  EmbeddingOptions options = toy::options("t", kDim, {"a"});
  for (const double max_norm : std::vector<double>{-1, NAN, INFINITY}) {
    options.max_norm = max_norm;
    toy::expect_invalid({"'t'", "max_norm"}, [&] { Embedding layer(options); });
  }
}

}  // namespace
}  // namespace embers
