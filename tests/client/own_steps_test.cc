#include "client/pipeline/own_steps.h"

#include <gtest/gtest.h>

#include "tests/client/stage_testing.h"

namespace embers {
namespace {

using testing_support::table;
using Versions = std::vector<std::optional<uint64_t>>;

TableSpec dense(UpdateRuleSpec rule) {
  TableSpec spec = table(kDenseTable, kDenseChunk, KeyKind::kBytes);
  spec.update_rule = std::move(rule);
  return spec;
}

// A chunk of each owner, number 0 first.
const std::vector<size_t> kOwners{0, 1};

// A minibatch whose dense parameters, zeros, came in answers of these versions. Its rows may be older.
std::unique_ptr<Work> pulled(const Versions& versions) {
  auto work = std::make_unique<Work>();
  work->versions = {0, 0};
  work->dense_versions = versions;
  work->rows.dense = FloatBuffer(2 * kDenseChunk);
  std::fill(work->rows.dense.span().begin(), work->rows.dense.span().end(), 0.0f);
  work->pulled = std::chrono::steady_clock::now();
  return work;
}

// The first parameter of each owner with the steps that it lacks.
std::vector<float> with(const OwnSteps& steps, Work& work) {
  steps.add_to(work, kOwners);
  return {work.rows.dense.span()[0], work.rows.dense.span()[kDenseChunk]};
}
std::vector<float> with(const OwnSteps& steps, const Versions& versions) {
  return with(steps, *pulled(versions));
}

// Takes a step that adds this to all parameters.
std::shared_ptr<PushAnswers> take(OwnSteps& steps, float change) {
  Work work;
  steps.keep(work, std::vector<float>(2 * kDenseChunk, change));
  return work.answers;
}

using Floats = std::vector<float>;

TEST(OwnSteps, AreAddedToVersionsThatLackThem) {
  OwnSteps steps(8);
  EXPECT_EQ(with(steps, {1, 1}), (Floats{0, 0}));
  const auto answers = take(steps, 0.5f);
  answers->applied(0, 5);
  answers->applied(1, 7);
  EXPECT_EQ(with(steps, {4, 6}), (Floats{0.5f, 0.5f}));
  EXPECT_EQ(with(steps, {5, 6}), (Floats{0, 0.5f})) << "of the second owner only";
  EXPECT_EQ(with(steps, {5, 7}), (Floats{0, 0}));
}

TEST(OwnSteps, BeforeOwnersHaveAnsweredAreAddedToWhatWasThereBefore) {
  OwnSteps steps(8);
  const auto before = pulled({9, 9});
  const auto answers = take(steps, 0.5f);
  EXPECT_EQ(with(steps, {9, 9}), (Floats{0, 0})) << "it may have the step";
  answers->applied(0, 9);
  EXPECT_EQ(with(steps, *before), (Floats{0, 0.5f}));
}

TEST(OwnSteps, ThatAreLostAreNotAdded) {
  OwnSteps steps(8);
  const auto before = pulled({3, 3});
  const auto answers = take(steps, 0.5f);
  answers->lost(0);
  EXPECT_EQ(with(steps, *before), (Floats{0, 0.5f}));
}

TEST(OwnSteps, AreNotAddedToWhatNoOwnerWasAskedFor) {
  OwnSteps steps(8);
  const auto before = pulled({std::nullopt, 3});
  take(steps, 0.5f);
  EXPECT_EQ(with(steps, *before), (Floats{0, 0.5f}));
}

TEST(OwnSteps, AreKeptAsLongAsAPullMayLackThem) {
  OwnSteps steps(2);
  const auto before = pulled({3, 3});
  for (int i = 0; i < 3; ++i) take(steps, 1);
  EXPECT_EQ(with(steps, *before), (Floats{2, 2}));
}

TEST(OwnSteps, AreCarriedWherePullsGoAheadAndAStepCanBeTold) {
  const job::Job job;
  const auto adam = dense({"adam", {}});
  EXPECT_TRUE(OwnSteps::are_carried(job, adam));
  const auto with_job = [&](const auto& change) {
    job::Job other;
    change(other.training);
    return OwnSteps::are_carried(other, adam);
  };
  EXPECT_FALSE(with_job([](auto& t) { t.prefetch = 0; }));
  EXPECT_FALSE(with_job([](auto& t) { t.mode = job::Mode::kSync; }));
  EXPECT_FALSE(with_job([](auto& t) { t.staleness_modulation = true; }));
  EXPECT_TRUE(with_job([](auto& t) { t.mode = job::Mode::kBounded; }));
  for (const char* const clip : {"clipvalue", "clipnorm", "global_clipnorm"})
    EXPECT_FALSE(OwnSteps::are_carried(job, dense({"adam", {{clip, 1}}}))) << clip;
  for (const char* const rule : {"sgd", "rmsprop", "adamw", "lion"})
    EXPECT_TRUE(OwnSteps::are_carried(job, dense({rule, {}}))) << rule;
  for (const char* const rule : {"adagrad", "rowwise_adagrad", "ftrl", "group_ftrl"})
    EXPECT_FALSE(OwnSteps::are_carried(job, dense({rule, {}}))) << rule;
  EXPECT_FALSE(OwnSteps::are_carried(job, dense({"adam", {{"amsgrad", 1}}})));
}

}  // namespace
}  // namespace embers
