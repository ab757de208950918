#include "client/pipeline/own_steps.h"

#include <gtest/gtest.h>

#include "tests/client/stage_testing.h"

namespace embers {
namespace {

using testing_support::table;

TableSpec dense(UpdateRuleSpec rule) {
  TableSpec spec = table(kDenseTable, kDenseChunk, KeyKind::kBytes);
  spec.update_rule = std::move(rule);
  return spec;
}

// The first dense parameter, zero when it was pulled from two owners at these versions.
float with_steps(const OwnSteps& steps, uint64_t first, uint64_t second,
                 const std::vector<bool>& holders = {true, true}) {
  Work work;
  work.versions = {first, second};
  work.rows.dense = FloatBuffer(2);
  std::fill(work.rows.dense.span().begin(), work.rows.dense.span().end(), 0.0f);
  steps.add_to(work, holders);
  return work.rows.dense.span()[0];
}

TEST(OwnSteps, AreAddedToWhatLacksThem) {
  OwnSteps steps(8);
  EXPECT_EQ(with_steps(steps, 1, 1), 0.0f);
  Work work;
  steps.keep(work, {0.5f, 0});
  EXPECT_EQ(with_steps(steps, 9, 9), 0.5f) << "nobody has answered";
  work.answers->applied(0, 5);
  EXPECT_EQ(with_steps(steps, 9, 9), 0.5f) << "one has not";
  work.answers->applied(1, 7);
  EXPECT_EQ(with_steps(steps, 4, 6), 0.5f);
  EXPECT_EQ(with_steps(steps, 5, 6), 0.5f) << "one lacks it";
  EXPECT_EQ(with_steps(steps, 5, 7), 0.0f);
  EXPECT_EQ(with_steps(steps, 5, 6, {true, false}), 0.0f) << "the other one holds no dense parameters";
}

TEST(OwnSteps, ThatAreLostAreNotAdded) {
  OwnSteps steps(8);
  Work work;
  steps.keep(work, {0.5f, 0});
  work.answers->lost();
  EXPECT_EQ(with_steps(steps, 0, 0), 0.0f);
}

TEST(OwnSteps, AreKeptAsLongAsAPullMayLackThem) {
  OwnSteps steps(2);
  std::vector<Work> works(3);
  for (Work& work : works) steps.keep(work, {1.0f, 0});
  EXPECT_EQ(with_steps(steps, 0, 0), 2.0f);
  EXPECT_EQ(with_steps(steps, 0, 0), 2.0f) << "any number of times";
}

TEST(OwnSteps, AreCarriedWherePullsGoAheadAndAStepCanBeTold) {
  const job::Job job;
  const auto adam = dense({"adam", {}});
  EXPECT_TRUE(OwnSteps::are_carried(job, adam));
  const auto without = [&](const auto& change) {
    job::Job other;
    change(other.training);
    return OwnSteps::are_carried(other, adam);
  };
  EXPECT_FALSE(without([](auto& t) { t.prefetch = 0; }));
  EXPECT_FALSE(without([](auto& t) { t.mode = job::Mode::kSync; }));
  EXPECT_FALSE(without([](auto& t) { t.staleness_modulation = true; }));
  EXPECT_TRUE(without([](auto& t) { t.mode = job::Mode::kBounded; }));
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
