#include "model/lookup/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace embers {
namespace {

// Rows of a BET with 3 unique keys, dim 2.
const std::vector<float> kBet{1, 2, 10, 20, 100, 200};

std::vector<float> combined(Combiner combiner, const std::vector<int32_t>& position,
                            const std::vector<int64_t>& offsets) {
  const RaggedPositions ids{position, offsets};
  std::vector<float> out(static_cast<size_t>(combined_rows(combiner, ids)) * 2, NAN);
  combine(combiner, ids, 2, kBet, out);
  return out;
}

TEST(Combine, WithoutACombinerCopiesOneRowPerId) {
  EXPECT_EQ(combined(Combiner::kNone, {2, 0, 2}, {0, 3}), (std::vector<float>{100, 200, 1, 2, 100, 200}));
}

TEST(Combine, SumsTheRowsOfAnExample) {
  EXPECT_EQ(combined(Combiner::kSum, {0, 1, 2}, {0, 2, 3}), (std::vector<float>{11, 22, 100, 200}));
}

TEST(Combine, MeanDividesByTheNumberOfIds) {
  EXPECT_EQ(combined(Combiner::kMean, {0, 1, 2}, {0, 2, 3}), (std::vector<float>{5.5, 11, 100, 200}));
}

TEST(Combine, SqrtNDividesByTheRootOfTheNumberOfIds) {
  EXPECT_EQ(combined(Combiner::kSqrtN, {0, 1, 0, 1}, {0, 4}), (std::vector<float>{11, 22}));
}

TEST(Combine, CountsARepeatedIdEachTime) {
  EXPECT_EQ(combined(Combiner::kSum, {1, 1, 1}, {0, 3}), (std::vector<float>{30, 60}));
  EXPECT_EQ(combined(Combiner::kMean, {1, 1, 0, 0}, {0, 4}), (std::vector<float>{5.5, 11}));
}

TEST(Combine, GivesZerosForAnExampleWithoutIds) {
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN})
    EXPECT_EQ(combined(combiner, {1}, {0, 0, 1, 1}), (std::vector<float>{0, 0, 10, 20, 0, 0}));
}

TEST(Combine, MaskedIdsCountForNothing) {
  EXPECT_EQ(combined(Combiner::kSum, {-1, 0}, {0, 2}), (std::vector<float>{1, 2}));
  EXPECT_EQ(combined(Combiner::kMean, {-1, 0, 1}, {0, 3}), (std::vector<float>{5.5, 11}));
  EXPECT_EQ(combined(Combiner::kSqrtN, {-1, 0, -1}, {0, 3}), (std::vector<float>{1, 2}));
  EXPECT_EQ(combined(Combiner::kMean, {-1, -1}, {0, 2}), (std::vector<float>{0, 0}));
  EXPECT_EQ(combined(Combiner::kNone, {-1, 0}, {0, 2}), (std::vector<float>{0, 0, 1, 2}));
}

std::vector<float> weighted(Combiner combiner, const std::vector<int32_t>& position,
                            const std::vector<float>& weights) {
  const std::vector<int64_t> offsets{0, static_cast<int64_t>(position.size())};
  std::vector<float> out(2, NAN);
  combine(combiner, {position, offsets, weights}, 2, kBet, out);
  return out;
}

// As tf.nn.embedding_lookup_sparse, which does not leave out weights; dedupe.h says who does.
TEST(Combine, WeighsRows) {
  EXPECT_EQ(weighted(Combiner::kSum, {0, 1}, {2, 0.5}), (std::vector<float>{7, 14}));
  EXPECT_EQ(weighted(Combiner::kMean, {0, 1, 1}, {2, 1, 1}), (std::vector<float>{5.5, 11}));
  EXPECT_EQ(weighted(Combiner::kSqrtN, {0, 1}, {3, 4}), (std::vector<float>{8.6f, 17.2f}));
  EXPECT_EQ(weighted(Combiner::kMean, {-1, 0}, {7, 2}), (std::vector<float>{1, 2}));
}

TEST(Combine, WeightsThatAddUpToZeroGiveZeros) {
  EXPECT_EQ(weighted(Combiner::kMean, {0, 1}, {1, -1}), (std::vector<float>{0, 0}));
  EXPECT_EQ(weighted(Combiner::kSqrtN, {0, 1}, {0, 0}), (std::vector<float>{0, 0}));
  std::vector<float> gradient(6, 0);
  const std::vector<int32_t> position{0, 1};
  const std::vector<int64_t> offsets{0, 2};
  const std::vector<float> weights{1, -1};
  add_combine_gradient(Combiner::kMean, {position, offsets, weights}, 2, std::vector<float>{3, 4}, gradient);
  EXPECT_EQ(gradient, std::vector<float>(6, 0));
}

TEST(Combine, AcceptsNothing) {
  EXPECT_TRUE(combined(Combiner::kNone, {}, {0}).empty());
  EXPECT_TRUE(combined(Combiner::kSum, {}, {0}).empty());
}

// combine() is linear in the BET, so <combine(bet), g> == <bet, add_combine_gradient(g)> for all bet and g
// defines the gradient.
TEST(CombineGradient, IsTheTransposeOfTheForwardPass) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const size_t unique = 7, dim = 5;
  const std::vector<int64_t> offsets{0, 3, 3, 4, 10, 12};
  std::vector<int32_t> position(12);
  for (int32_t& p : position) p = static_cast<int32_t>(random() % (unique + 1)) - 1;
  const RaggedPositions ids{position, offsets};
  for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    std::vector<float> bet(unique * dim), gradient(unique * dim, 0);
    std::vector<float> out(static_cast<size_t>(combined_rows(combiner, ids)) * dim), out_gradient(out.size());
    for (float& x : bet) x = normal(random);
    for (float& x : out_gradient) x = normal(random);
    combine(combiner, ids, dim, bet, out);
    add_combine_gradient(combiner, ids, dim, out_gradient, gradient);
    double forward = 0, backward = 0;
    for (size_t i = 0; i < out.size(); ++i) forward += static_cast<double>(out[i]) * out_gradient[i];
    for (size_t i = 0; i < bet.size(); ++i) backward += static_cast<double>(bet[i]) * gradient[i];
    EXPECT_NEAR(forward, backward, 1e-4);
    EXPECT_GT(std::abs(forward), 1e-3);
  }
}

// Dims that have loops of their own and others; examples of one id, of several, of a masked one.
TEST(Combine, GivesTheSameBitsInEveryColumnWhateverTheDim) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  const size_t unique = 6;
  const std::vector<int64_t> offsets{0, 1, 2, 5, 6, 6, 7};
  const std::vector<int32_t> position{3, 0, 1, 5, 1, -1, 3};
  const std::vector<float> weights{1, 0.5f, 2, 1, 3, 1, 0.25f};
  std::vector<float> column(unique), gradient(offsets.size() - 1);
  for (float& x : column) x = normal(random);
  for (float& x : gradient) x = normal(random);
  for (const bool weighted : {false, true}) {
    const RaggedPositions ids{position, offsets,
                              weighted ? std::span<const float>(weights) : std::span<const float>()};
    for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
      const size_t examples = offsets.size() - 1;
      std::vector<float> expected(3 * examples, NAN), expected_gradient(3 * unique, 0);
      std::vector<float> bet3, gradient3;
      for (const float x : column) bet3.insert(bet3.end(), 3, x);
      for (const float x : gradient) gradient3.insert(gradient3.end(), 3, x);
      combine(combiner, ids, 3, bet3, expected);
      add_combine_gradient(combiner, ids, 3, gradient3, expected_gradient);
      for (const size_t dim : {1, 8, 16, 32, 64}) {
        std::vector<float> bet, out(dim * examples, NAN), out_gradient, got(dim * unique, 0);
        for (const float x : column) bet.insert(bet.end(), dim, x);
        for (const float x : gradient) out_gradient.insert(out_gradient.end(), dim, x);
        combine(combiner, ids, dim, bet, out);
        add_combine_gradient(combiner, ids, dim, out_gradient, got);
        for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], expected[i / dim * 3]);
        for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], expected_gradient[i / dim * 3]);
        EXPECT_EQ(out[0], weighted ? expected[0] : column[3]);
      }
    }
  }
}

TEST(CombineGradient, IsZeroForKeysWithoutIds) {
  std::vector<float> gradient(6, 0);
  const std::vector<int32_t> position{1};
  const std::vector<int64_t> offsets{0, 1};
  add_combine_gradient(Combiner::kSum, {position, offsets}, 2, std::vector<float>{3, 4}, gradient);
  EXPECT_EQ(gradient, (std::vector<float>{0, 0, 3, 4, 0, 0}));
}

}  // namespace
}  // namespace embers
