#include "model/lookup/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "model/lookup/pre_lookup.h"

namespace embers {
namespace {

void in_order(size_t count, const std::function<void(size_t)>& work) {
  for (size_t i = 0; i < count; ++i) work(i);
}
void backwards(size_t count, const std::function<void(size_t)>& work) {
  while (count > 0) work(--count);
}

// Calls and what they give, forward and backward.
class Calls {
 public:
  Calls(const std::vector<Combination::Bet>& bets, const std::vector<CombineCall>& calls,
        const Combination::Spread& spread = in_order)
      : bets_(bets), combination_(bets, calls, memory_) {
    std::vector<std::span<float>> spans;
    for (const CombineCall& call : calls)
      out.emplace_back(static_cast<size_t>(combined_rows(call) * bets[call.bet].dim), NAN);
    for (std::vector<float>& values : out) spans.emplace_back(values);
    combination_.forward(spans, spread);
  }
  std::vector<float> gradient(size_t bet, const std::vector<std::vector<float>>& of_calls) const {
    std::vector<OutGradient> gradients;
    for (size_t i = 0; i < of_calls.size(); ++i)
      gradients.push_back({of_calls[i], bets_[combination_.calls()[i].bet].dim});
    std::vector<float> result(bets_[bet].rows.size(), NAN);
    combination_.gradient(bet, gradients, result);
    return result;
  }
  std::vector<std::vector<float>> out;  // of each call

 private:
  std::vector<Combination::Bet> bets_;
  CombineMemory memory_;
  Combination combination_;
};

// Rows of a BET with 3 unique keys, dim 2.
const std::vector<float> kBet{1, 2, 10, 20, 100, 200};

std::vector<float> combined(Combiner combiner, const std::vector<int32_t>& position,
                            const std::vector<int64_t>& offsets) {
  return Calls({{kBet, 2}}, {{0, combiner, {position, offsets}}}).out.front();
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

TEST(Combine, GivesTheDefaultRowToAnExampleWithoutIds) {
  const std::vector<int32_t> position{1, kMasked, 0, 1};
  const std::vector<int64_t> offsets{0, 0, 1, 2, 4};
  const std::vector<float> weights{3, 5, 2, 2}, gradient{1, 2, 3, 4, 5, 6, 7, 8};
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    RaggedPositions ids{position, offsets, {}, 0, 2};
    const Calls run({{kBet, 2}}, {{0, combiner, ids}});
    const std::vector<float>& out = run.out.front();
    EXPECT_EQ((std::vector<float>(out.begin(), out.begin() + 6)),
              (std::vector<float>{100, 200, 10, 20, 100, 200}));
    const std::vector<float> of_default = run.gradient(0, {gradient});
    EXPECT_EQ((std::vector<float>(of_default.begin() + 4, of_default.end())), (std::vector<float>{6, 8}));
    ids.weights = weights;
    EXPECT_EQ(Calls({{kBet, 2}}, {{0, combiner, ids}}).out.front()[0], 100) << "its weight is 1";
  }
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
  return Calls({{kBet, 2}}, {{0, combiner, {position, offsets, weights}}}).out.front();
}

// Like tf.nn.embedding_lookup_sparse, which does not leave out weights; dedupe.h says what does.
TEST(Combine, WeighsRows) {
  EXPECT_EQ(weighted(Combiner::kSum, {0, 1}, {2, 0.5}), (std::vector<float>{7, 14}));
  EXPECT_EQ(weighted(Combiner::kMean, {0, 1, 1}, {2, 1, 1}), (std::vector<float>{5.5, 11}));
  EXPECT_EQ(weighted(Combiner::kMean, {0, 1}, {2, -1}), (std::vector<float>{-8, -16}));
  const std::vector<float> root = weighted(Combiner::kSqrtN, {0, 1}, {3, 4});
  EXPECT_FLOAT_EQ(root[0], 8.6f);
  EXPECT_FLOAT_EQ(root[1], 17.2f);
  EXPECT_EQ(weighted(Combiner::kMean, {-1, 0}, {7, 2}), (std::vector<float>{1, 2}));
}

TEST(Combine, WeightsThatAddUpToZeroGiveZeros) {
  EXPECT_EQ(weighted(Combiner::kMean, {0, 1}, {1, -1}), (std::vector<float>{0, 0}));
  EXPECT_EQ(weighted(Combiner::kSqrtN, {0, 1}, {0, 0}), (std::vector<float>{0, 0}));
  const std::vector<int32_t> position{0, 1};
  const std::vector<int64_t> offsets{0, 2};
  const std::vector<float> weights{1, -1};
  const Calls run({{kBet, 2}}, {{0, Combiner::kMean, {position, offsets, weights}}});
  EXPECT_EQ(run.gradient(0, {{3, 4}}), std::vector<float>(6, 0));
}

TEST(Combine, AcceptsNothing) {
  EXPECT_TRUE(combined(Combiner::kNone, {}, {0}).empty());
  EXPECT_TRUE(combined(Combiner::kSum, {}, {0}).empty());
  const std::vector<int64_t> offsets{0, 0};
  EXPECT_EQ(Calls({{{}, 2}}, {{0, Combiner::kSum, {{}, offsets}, 1}}).out.front(),
            (std::vector<float>{0, 0}));
}

struct Random {
  std::mt19937 engine{3};
  std::normal_distribution<float> normal;
  std::vector<float> floats(size_t count) {
    std::vector<float> values(count);
    for (float& x : values) x = normal(engine);
    return values;
  }
  std::vector<int32_t> places(size_t count, size_t unique, bool masked) {
    std::vector<int32_t> places(count);
    for (int32_t& p : places)
      p = masked ? static_cast<int32_t>(engine() % (unique + 1)) - 1
                 : static_cast<int32_t>(engine() % unique);
    return places;
  }
};

// Combining is linear in the BET, so <out(bet), g> == <bet, gradient(g)> for all bet and g defines the
// gradient.
TEST(CombineGradient, IsTheTransposeOfTheForwardPass) {
  Random random;
  const size_t unique = 7;
  const std::vector<int64_t> offsets{0, 3, 3, 4, 10, 12};
  const std::vector<int32_t> position = random.places(12, unique, true);
  for (const int64_t dim : {1, 5, 8, 16, 200}) {
    for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
      const std::vector<float> bet = random.floats(unique * static_cast<size_t>(dim));
      const Calls run({{bet, dim}}, {{0, combiner, {position, offsets, {}, 0, 1}}});
      const std::vector<float>& out = run.out.front();
      const std::vector<float> out_gradient = random.floats(out.size());
      const std::vector<float> gradient = run.gradient(0, {out_gradient});
      double forward = 0, backward = 0;
      for (size_t i = 0; i < out.size(); ++i) forward += static_cast<double>(out[i]) * out_gradient[i];
      for (size_t i = 0; i < bet.size(); ++i) backward += static_cast<double>(bet[i]) * gradient[i];
      EXPECT_NEAR(forward, backward, 1e-3);
      EXPECT_GT(std::abs(forward), 1e-4);
    }
  }
}

// Dims that have loops of their own and others; examples of one id, of several, of a masked one.
TEST(Combine, GivesTheSameBitsInEveryColumnWhateverTheDim) {
  Random random;
  const size_t unique = 6;
  const std::vector<int64_t> offsets{0, 1, 2, 5, 6, 6, 7};
  const std::vector<int32_t> position{3, 0, 1, 5, 1, -1, 3};
  const std::vector<float> weights{1, 0.5f, 2, 1, 3, 1, 0.25f};
  const std::vector<float> column = random.floats(unique), gradient = random.floats(offsets.size() - 1);
  const auto repeated = [](const std::vector<float>& values, size_t dim) {
    std::vector<float> wide;
    for (const float x : values) wide.insert(wide.end(), dim, x);
    return wide;
  };
  for (const bool weighted : {false, true}) {
    const RaggedPositions ids{position, offsets,
                              weighted ? std::span<const float>(weights) : std::span<const float>()};
    for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
      const auto bet3 = repeated(column, 3);
      const Calls three({{bet3, 3}}, {{0, combiner, ids}});
      const std::vector<float> expected = three.gradient(0, {repeated(gradient, 3)});
      for (const size_t dim : {1, 2, 8, 16, 32, 64, 300}) {
        const auto bet = repeated(column, dim);
        const Calls run({{bet, static_cast<int64_t>(dim)}}, {{0, combiner, ids}});
        const std::vector<float>& out = run.out.front();
        const std::vector<float> got = run.gradient(0, {repeated(gradient, dim)});
        for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], three.out.front()[i / dim * 3]);
        for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], expected[i / dim * 3]);
      }
    }
  }
}

TEST(Combine, OneWidthForAllGivesTheBitsOfOffsets) {
  Random random;
  for (const int64_t dim : {1, 3, 8, 16, 300}) {
    for (const size_t width : {1, 2, 5}) {
      const size_t examples = 40, unique = 9;
      const std::vector<float> bet = random.floats(unique * static_cast<size_t>(dim)),
                               gradient = random.floats(examples * static_cast<size_t>(dim)),
                               weights = random.floats(examples * width);
      const std::vector<int32_t> position = random.places(examples * width, unique, false);
      std::vector<int64_t> offsets;
      for (size_t e = 0; e <= examples; ++e) offsets.push_back(static_cast<int64_t>(e * width));
      for (const double max_norm : {0.0, 1.0}) {
        for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
          for (const bool weighted : {false, true}) {
            RaggedPositions ids{position, offsets,
                                weighted ? std::span<const float>(weights) : std::span<const float>()};
            const Calls by_offsets({{bet, dim}}, {{0, combiner, ids, max_norm}});
            ids.width = static_cast<int64_t>(width);
            ids.offsets = {};
            const Calls by_width({{bet, dim}}, {{0, combiner, ids, max_norm}});
            EXPECT_EQ(by_offsets.out, by_width.out);
            EXPECT_EQ(by_offsets.gradient(0, {gradient}), by_width.gradient(0, {gradient}));
          }
        }
      }
    }
  }
}

// Ragged ids, several calls on two BETs, clipped differently or not.
struct Shared {
  Random random;
  std::vector<float> first = random.floats(9 * 5), second = random.floats(4);
  std::vector<int32_t> a = random.places(30, 9, true), b = random.places(10, 9, true),
                       c = random.places(30, 4, false);
  std::vector<int64_t> offsets{0, 3, 3, 10, 11, 30}, few{0, 5, 10};
  std::vector<float> weights = random.floats(30);
  std::vector<Combination::Bet> bets{{first, 5}, {second, 1}};
  std::vector<CombineCall> calls{{0, Combiner::kMean, {a, offsets}, 1.0},
                                 {1, Combiner::kSum, {c, offsets, weights}, 0.5},
                                 {0, Combiner::kSum, {b, few}},
                                 {0, Combiner::kSqrtN, {b, few}, 1.0},
                                 {0, Combiner::kNone, {b, few}, 1.5}};
  std::vector<std::vector<float>> gradients{random.floats(25), random.floats(5), random.floats(10),
                                            random.floats(10), random.floats(50)};
};

TEST(Combine, GivesTheSameBitsHoweverItsWorkIsSpreadAndWhoeverElseIsThere) {
  const Shared shared;
  const Calls run(shared.bets, shared.calls), other(shared.bets, shared.calls, backwards);
  EXPECT_EQ(run.out, other.out);
  for (const size_t bet : {0, 1})
    EXPECT_EQ(run.gradient(bet, shared.gradients), other.gradient(bet, shared.gradients));
  for (size_t i = 0; i < shared.calls.size(); ++i)
    EXPECT_EQ(Calls(shared.bets, {shared.calls[i]}).out.front(), run.out[i]);
}

TEST(CombineGradient, AddsUpCallsThatClipDifferently) {
  const Shared shared;
  const Calls run(shared.bets, shared.calls);
  const std::vector<float> together = run.gradient(0, shared.gradients);
  std::vector<double> sum(together.size());
  for (const size_t i : {0, 2, 3, 4}) {
    const std::vector<float> alone = Calls(shared.bets, {shared.calls[i]}).gradient(0, {shared.gradients[i]});
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += alone[k];
  }
  for (size_t k = 0; k < sum.size(); ++k) EXPECT_NEAR(together[k], sum[k], 1e-4);
}

TEST(Combine, MayClipRowsWhereTheyAre) {
  const Shared shared;
  const std::vector<CombineCall> alike{shared.calls[0], shared.calls[3]};
  const std::vector<std::vector<float>> gradients{shared.gradients[0], shared.gradients[3]};
  std::vector<float> rows = shared.first;
  const Calls wanted({{shared.first, 5}}, alike), run({{rows, 5, rows.data()}}, alike);
  EXPECT_EQ(run.out, wanted.out);
  const std::vector<float> got = run.gradient(0, gradients), want = wanted.gradient(0, gradients);
  for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-5);
  EXPECT_NE(rows, shared.first);
}

TEST(Combine, LeavesRowsAloneThatAnotherCallReadsUnclipped) {
  const Shared shared;
  std::vector<float> rows = shared.first;
  const Calls wanted(shared.bets, shared.calls),
      run({{rows, 5, rows.data()}, {shared.second, 1}}, shared.calls);
  EXPECT_EQ(run.out, wanted.out);
  EXPECT_EQ(run.gradient(0, shared.gradients), wanted.gradient(0, shared.gradients));
  EXPECT_EQ(rows, shared.first);
}

// Places are counted instead of sorted; the result must be the same as with sorting, bit for bit.
TEST(CombineGradient, IsThatOfTheOperators) {
  const Shared shared;
  for (const CombineCall& call : shared.calls) {
    if (call.combiner == Combiner::kNone) continue;
    const auto i = static_cast<size_t>(&call - shared.calls.data());
    const Combination::Bet& bet = shared.bets[call.bet];
    const std::vector<float> dense = Calls(shared.bets, {call}).gradient(call.bet, {shared.gradients[i]});
    const LocalTable table({bet.rows}, bet.dim);
    LookupPass pass;
    LookupWorkspace workspace;
    SparseIds ids{call.ids.position, call.ids.offsets, {}};
    if (!call.ids.weights.empty()) ids.weights = call.ids.weights;
    LookupOptions options{call.combiner, {}, {}, true, false};
    if (call.max_norm > 0) options.max_norm = static_cast<float>(call.max_norm);
    std::vector<float> out(shared.gradients[i].size());
    pre_lookup(table, ids, options, pass);
    post_lookup(call.combiner, options.max_norm, pass, workspace, out);
    EXPECT_EQ(out, Calls(shared.bets, {call}).out.front());
    const RowGradients sorted = post_lookup_gradient(pass, shared.gradients[i], workspace);
    std::vector<float> scattered(dense.size());
    for (size_t u = 0; u < sorted.rows.size(); ++u)
      std::copy_n(sorted.values.begin() + static_cast<ptrdiff_t>(u) * bet.dim, bet.dim,
                  scattered.begin() + sorted.rows[u] * bet.dim);
    EXPECT_EQ(scattered, dense);
  }
}

TEST(CombineGradient, IsZeroForKeysWithoutIds) {
  const std::vector<int32_t> position{1};
  const std::vector<int64_t> offsets{0, 1};
  const Calls run({{kBet, 2}}, {{0, Combiner::kSum, {position, offsets}}});
  EXPECT_EQ(run.gradient(0, {{3, 4}}), (std::vector<float>{0, 0, 3, 4, 0, 0}));
}

TEST(CombineGradient, TakesColumnsOfAWiderMatrix) {
  const std::vector<int32_t> position{1, 0, 1};
  CombineMemory memory;
  Combination combination({{kBet, 2}}, {{0, Combiner::kSum, {position, {}, {}, 1}}}, memory);
  std::vector<float> out(6);
  combination.forward(std::vector{std::span(out)}, in_order);
  const std::vector<float> wide{1, 2, 99, 3, 4, 99, 5, 6};
  std::vector<float> gradient(6);
  combination.gradient(0, std::vector{OutGradient{wide, 3}}, gradient);
  EXPECT_EQ(gradient, (std::vector<float>{3, 4, 6, 8, 0, 0}));
  combination.gradient(0, std::vector{OutGradient{std::span(wide).first(2), 0}}, gradient);
  EXPECT_EQ(gradient, (std::vector<float>{1, 2, 2, 4, 0, 0})) << "all examples have one gradient";
  EXPECT_THROW(combination.gradient(0, std::vector{OutGradient{std::span(wide).first(7), 3}}, gradient),
               Error);
}

TEST(CombineMemory, HandsFloatsOutAgainOnceNobodyHoldsThem) {
  CombineMemory memory;
  std::shared_ptr<FloatBuffer> first = memory.share(memory.take(100));
  const float* const address = first->data();
  EXPECT_EQ(first->size(), 100u);
  const std::shared_ptr<FloatBuffer> second = memory.share(memory.take(100));
  EXPECT_NE(second->data(), address) << "the first is still held";
  first.reset();
  EXPECT_NE(memory.take(1000).data(), address) << "too short";
  EXPECT_NE(memory.take(10).data(), address) << "too long";
  const FloatBuffer again = memory.take(90);
  EXPECT_EQ(again.data(), address);
  EXPECT_EQ(again.size(), 90u);
}

TEST(CombineMemory, LeavesFloatsToWhoeverTakesThemOutOfTheShare) {
  CombineMemory memory;
  std::shared_ptr<FloatBuffer> shared = memory.share(memory.take(100));
  const float* const address = shared->data();
  const FloatBuffer kept = std::move(*shared);
  shared.reset();
  EXPECT_NE(memory.take(100).data(), address);
  EXPECT_EQ(kept.data(), address);
}

}  // namespace
}  // namespace embers
