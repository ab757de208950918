// What becomes of the scores that workers evaluated.
#include "master/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using testing_support::TempDir;

double naive_auc(const std::vector<float>& scores, const std::vector<float>& labels) {
  double right = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = 0; j < scores.size(); ++j)
      if (labels[i] > 0.5f && labels[j] <= 0.5f) {
        ++pairs;
        right += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      }
  return right / pairs;
}

// All scores sorted at once, and areas added up in doubles: exact for up to 2^52 pairs.
double sorted_auc(const std::vector<float>& scores, const std::vector<float>& labels) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return scores[a] < scores[b]; });
  double positives = 0, negatives = 0, area = 0;
  for (size_t i = 0; i < order.size();) {
    double tied_positives = 0, tied_negatives = 0;
    const float score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i)
      (labels[order[i]] > 0.5f ? tied_positives : tied_negatives) += 1;
    area += tied_positives * (negatives + tied_negatives / 2);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  return area / (positives * negatives);
}

TEST(Auc, IsTheShareOfPairsInOrderTiesCountedHalf) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<float> scores{0.5f, 0.5f}, labels{0, 1};
    for (uint64_t n = random() % 60; n > 0; --n) {
      scores.push_back(static_cast<float>(random() % 10) / 10);
      labels.push_back(static_cast<float>(random() % 2));
    }
    EXPECT_NEAR(auc(scores, labels), naive_auc(scores, labels), 1e-12);
  }
}

TEST(Auc, TakesScoresOfEverySizeAndSign) {
  const float inf = INFINITY, tiny = 1e-45f;
  EXPECT_EQ(auc(std::vector<float>{-inf, -2, -1, -tiny, 0, tiny, 1, inf},
                std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1}),
            1);
  EXPECT_EQ(auc(std::vector<float>{-0.0f, 0.0f}, std::vector<float>{1, 0}), 0.5) << "they are equal";
  EXPECT_EQ(auc(std::vector<float>{inf, inf, -inf}, std::vector<float>{1, 0, 1}), 0.25);
}

TEST(Auc, DoesNotExistForOneClassNoLabelsOrScoresThatAreNaN) {
  EXPECT_TRUE(std::isnan(auc(std::vector<float>{1, 2}, std::vector<float>{1, 1})));
  EXPECT_TRUE(std::isnan(auc(std::vector<float>{1, 2}, {})));
  EXPECT_TRUE(std::isnan(auc({}, {})));
  EXPECT_TRUE(std::isnan(auc(std::vector<float>{1, NAN}, std::vector<float>{1, 0})));
}

struct Scored {
  std::vector<float> scores, labels;
};

Scored random_scores(size_t n, uint64_t seed, uint64_t distinct, int percent_positive) {
  std::mt19937_64 random(seed);
  Scored s;
  for (size_t i = 0; i < n; ++i) {
    s.scores.push_back(static_cast<float>(random() % distinct) / static_cast<float>(distinct));
    s.labels.push_back(static_cast<int>(random() % 100) < percent_positive ? 1.0f : 0.0f);
  }
  return s;
}

TEST(ExactAuc, IsTheSameBitsInMemoryInFilesAndSortedAtOnce) {
  const struct {
    uint64_t distinct;
    int percent;
  } cases[] = {{7, 50}, {1000, 3}, {1 << 24, 50}, {1 << 24, 97}};
  for (const auto& c : cases) {
    const Scored s = random_scores(30'000, c.distinct, c.distinct, c.percent);
    const double expected = sorted_auc(s.scores, s.labels);
    for (const size_t memory : {size_t{1}, size_t{1000}, size_t{20'000}, ExactAuc::kMemory}) {
      ExactAuc exact(memory);
      for (size_t begin = 0, n = 1; begin < s.scores.size();
           begin += n, n = std::min(3 * n, s.scores.size() - begin))
        exact.add(std::span(s.scores).subspan(begin, n), std::span(s.labels).subspan(begin, n));
      EXPECT_LE(exact.memory(), memory);
      EXPECT_EQ(exact.value(), expected) << c.distinct << " scores, " << memory << " bytes";
      EXPECT_EQ(exact.value(), expected) << "asked twice";
      EXPECT_EQ(exact.file_bytes() > 0, memory < 120'000);
    }
  }
}

TEST(ExactAuc, KeepsItsMemoryWithinTheLimitWhateverComes) {
  const size_t memory = 64 << 10;
  ExactAuc exact(memory);
  size_t most = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Scored s = random_scores(10'000, seed, 1 << 20, seed % 2 == 0 ? 2 : 90);
    exact.add(s.scores, s.labels);
    most = std::max(most, exact.memory());
  }
  EXPECT_LE(most, memory);
  EXPECT_GE(exact.file_bytes(), 200'000 * sizeof(float) - memory - (32 << 10));
}

TEST(ExactAuc, ThatCannotWriteItsFileSaysWhereAndWhatToDo) {
  TempDir dir;
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", (dir / "nowhere").c_str(), 1);
  const Scored s = random_scores(1000, 1, 1000, 50);
  ExactAuc exact(100);
  testing_support::expect_error(ErrorCode::kInvalid, {"set TMPDIR to another folder"},
                                [&] { exact.add(s.scores, s.labels); });
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
}

Message<wire::DoneRequest> done(uint64_t minibatch, const std::vector<float>& scores,
                                const std::vector<float>& labels, double loss_sum) {
  return make_message<wire::DoneRequest>([&](wire::DoneRequest::Builder b) {
    b.setMinibatch(minibatch);
    b.setExamples(scores.size());
    b.setLossSum(loss_sum);
    b.setScores(as_data(scores));
    b.setLabels(as_data(labels));
  });
}

TEST(Evaluation, CountsInMinibatchOrderWhoeverWasFirst) {
  std::mt19937_64 random(3);
  std::vector<Message<wire::DoneRequest>> results;
  double loss = 0;
  Scored all;
  for (uint64_t m = 0; m < 50; ++m) {
    const Scored s = random_scores(20, m, 100, 50);
    const double sum = std::ldexp(static_cast<double>(random()), -60);
    loss += sum;
    all.scores.insert(all.scores.end(), s.scores.begin(), s.scores.end());
    all.labels.insert(all.labels.end(), s.labels.begin(), s.labels.end());
    results.push_back(done(m, s.scores, s.labels, sum));
  }
  for (int round = 0; round < 5; ++round) {
    Evaluation evaluation("", 100);
    std::vector<size_t> order(results.size());
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<bool> there(results.size());
    for (const size_t i : order) {
      evaluation.add(results[i]);
      there[i] = true;
      ASSERT_EQ(evaluation.counted(), std::find(there.begin(), there.end(), false) - there.begin());
    }
    const Evaluation::Metrics metrics = evaluation.finish();
    EXPECT_EQ(metrics.examples, 1000);
    EXPECT_EQ(metrics.loss, loss / 1000) << "the same bits in every order";
    EXPECT_EQ(metrics.auc, sorted_auc(all.scores, all.labels));
    size_t right = 0;
    for (size_t i = 0; i < 1000; ++i) right += (all.scores[i] >= 0.5f) == (all.labels[i] > 0.5f);
    EXPECT_EQ(metrics.accuracy, static_cast<double>(right) / 1000);
  }
}

TEST(Evaluation, WithoutLabelsHasNoMetrics) {
  Evaluation evaluation;
  evaluation.add(done(0, {0.1f}, {}, 0));
  EXPECT_TRUE(std::isnan(evaluation.finish().loss));
  EXPECT_TRUE(std::isnan(evaluation.finish().auc));
  EXPECT_TRUE(std::isnan(evaluation.finish().accuracy));
  EXPECT_EQ(evaluation.finish().examples, 1);
}

TEST(Evaluation, OfNothingHasNoMetrics) {
  Evaluation evaluation;
  EXPECT_TRUE(std::isnan(evaluation.finish().loss));
  EXPECT_TRUE(std::isnan(evaluation.finish().accuracy));
}

TEST(Evaluation, CountsScoresOnTheRightSideOfAHalf) {
  Evaluation evaluation;
  evaluation.add(done(0, {0.5f, 0.4f, 0.9f, 0.1f}, {1, 0, 0, 1}, 1));
  EXPECT_EQ(evaluation.finish().accuracy, 0.5);
}

TEST(Evaluation, RefusesListsThatDoNotFitEachOther) {
  testing_support::expect_error(ErrorCode::kBadFrame, {"minibatch 3: 2 scores come with 1 labels"}, [] {
    read_evaluated(done(3, {0.5f, 0.4f}, {1}, 1).get());
  });
}

}  // namespace
}  // namespace embers
