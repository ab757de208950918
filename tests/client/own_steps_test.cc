#include "client/pipeline/own_steps.h"

#include <gtest/gtest.h>

#include "tests/client/stage_testing.h"

namespace embers {
namespace {

using testing_support::table;
using LastSteps = std::vector<std::optional<uint64_t>>;

TableSpec dense(UpdateRuleSpec rule) {
  TableSpec spec = table(kDenseTable, kDenseChunk, KeyKind::kBytes);
  spec.update_rule = std::move(rule);
  return spec;
}

// A chunk of each owner, number 0 first.
const std::vector<size_t> kOwners{0, 1};

// A minibatch whose dense parameters, zeros, came in answers that had these steps.
std::unique_ptr<Work> pulled(const LastSteps& steps, uint64_t version = 0) {
  auto work = std::make_unique<Work>();
  work->versions = {0, 0};
  for (const auto& step : steps)
    work->dense_reads.push_back(step ? std::optional<DenseRead>({version, *step}) : std::nullopt);
  work->rows.dense = FloatBuffer(2 * kDenseChunk);
  std::fill(work->rows.dense.span().begin(), work->rows.dense.span().end(), 0.0f);
  return work;
}

// The first parameter of each owner with the steps that it lacks.
std::vector<float> with(const OwnSteps& steps, const LastSteps& had) {
  const auto work = pulled(had);
  steps.add_to(*work, kOwners);
  return {work->rows.dense.span()[0], work->rows.dense.span()[kDenseChunk]};
}

// Takes a step that adds this to all parameters.
struct Taken {
  uint64_t number;
  std::shared_ptr<NotApplied> not_applied;
};
Taken take(OwnSteps& steps, float change) {
  Work work;
  steps.keep(work, std::vector<float>(2 * kDenseChunk, change));
  return {work.origin.step, work.not_applied};
}

using Floats = std::vector<float>;
constexpr uint64_t kUnknown = UINT64_MAX;

TEST(OwnSteps, AreAddedToWhatWasPulledBeforeThem) {
  OwnSteps steps(8);
  EXPECT_EQ(with(steps, {0, 0}), (Floats{0, 0}));
  const uint64_t first = take(steps, 0.5f).number, second = take(steps, 2).number;
  EXPECT_GT(second, first);
  EXPECT_EQ(with(steps, {0, 0}), (Floats{2.5f, 2.5f}));
  EXPECT_EQ(with(steps, {first, 0}), (Floats{2, 2.5f})) << "each owner has applied what it has applied";
  EXPECT_EQ(with(steps, {second, first}), (Floats{0, 2}));
  EXPECT_EQ(with(steps, {second, second}), (Floats{0, 0}));
}

TEST(OwnSteps, AreNotAddedWhereAnOwnerDoesNotKnowWhichOnesItHas) {
  OwnSteps steps(8);
  take(steps, 0.5f);
  EXPECT_EQ(with(steps, {kUnknown, 0}), (Floats{0, 0.5f}));
}

TEST(OwnSteps, ThatAreNotAppliedAreNotAdded) {
  OwnSteps steps(8);
  take(steps, 0.5f).not_applied->add(0);
  EXPECT_EQ(with(steps, {0, 0}), (Floats{0, 0.5f}));
}

TEST(OwnSteps, AreNotAddedToWhatNoOwnerWasAskedFor) {
  OwnSteps steps(8);
  take(steps, 0.5f);
  EXPECT_EQ(with(steps, {std::nullopt, 0}), (Floats{0, 0.5f}));
}

TEST(OwnSteps, AreKeptAsLongAsAPullMayLackThem) {
  OwnSteps steps(2);
  for (int i = 0; i < 3; ++i) take(steps, 1);
  EXPECT_EQ(with(steps, {0, 0}), (Floats{2, 2}));
}

// An owner keeps one number for a process, whatever became of the pipeline that took the step.
TEST(OwnSteps, AreNumberedOnFromWhereAnEarlierPipelineEnded) {
  uint64_t before = 0;
  {
    OwnSteps steps(2);
    before = take(steps, 1).number;
  }
  OwnSteps steps(2);
  take(steps, 1);
  EXPECT_EQ(with(steps, {before, before}), (Floats{1, 1}));
}

TEST(OwnSteps, TellWhetherOthersPushToo) {
  OwnSteps steps(8);
  EXPECT_TRUE(steps.others_push()) << "they may";
  const auto see = [&](uint64_t version, const LastSteps& had) {
    steps.note(*pulled(had, version));
    return steps.others_push();
  };
  const uint64_t first = take(steps, 1).number;
  for (uint64_t i = 0; i < 16; ++i) EXPECT_TRUE(see(40 + i, {first + i, first + i})) << "too few: " << i;
  EXPECT_FALSE(see(56, {first + 16, first + 16}));
  EXPECT_FALSE(see(56, {first + 16, first + 16}));
  EXPECT_TRUE(see(60, {kUnknown, std::nullopt})) << "of these nobody can tell";
  EXPECT_FALSE(see(57, {first + 17, first + 17}));
  EXPECT_TRUE(see(59, {first + 18, first + 18}));
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(see(59, {first + 18, first + 18})) << i;
  EXPECT_FALSE(see(59, {first + 18, first + 18})) << "they have not pushed for a while";
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
