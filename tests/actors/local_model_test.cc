#include "actors/routing/local_model.h"

#include <gtest/gtest.h>

#include <limits>

#include <cmath>

#include "tests/support/expect_error.h"

namespace embers {
namespace {

using testing_support::expect_error;

TableSpec dense(UpdateRuleSpec optimizer) {
  TableSpec spec;
  spec.name = kDenseTable;
  spec.dim = kDenseChunk;
  spec.update_rule = std::move(optimizer);
  return spec;
}

TEST(LocalModel, FollowsEveryGradientFromWhatWasPulled) {
  LocalModel model(dense({"sgd", {{"learning_rate", 0.5}}}));
  EXPECT_TRUE(model.empty());
  const std::vector<float> pulled(2 * kDenseChunk, 10.0f);
  std::vector<float> grads(2 * kDenseChunk, 1.0f);
  grads[kDenseChunk + 3] = 4.0f;
  model.replace(pulled);
  model.update(grads, 1);
  model.update(grads, 1);
  EXPECT_EQ(model.values().span()[0], 9.0f);
  EXPECT_EQ(model.values().span()[kDenseChunk + 3], 6.0f);
  model.replace(pulled);
  EXPECT_EQ(model.values().span()[0], 10.0f);
}

TEST(LocalModel, SaysWhatAStepHasChanged) {
  LocalModel model(dense({"sgd", {{"learning_rate", 0.5}}}));
  std::vector<float> values(2 * kDenseChunk, 1.0f), grads(2 * kDenseChunk, 2.0f);
  grads[kDenseChunk] = std::numeric_limits<float>::infinity();
  model.replace(values);
  const std::vector<float> change = model.update(grads, 1);
  EXPECT_EQ(change[0], -1.0f);
  EXPECT_EQ(change[kDenseChunk - 1], -1.0f);
  EXPECT_EQ(change[kDenseChunk + 1], 0.0f) << "of a gradient that is left out";
}

// As in storage::apply(), so that a worker's own steps are those of the shard.
TEST(LocalModel, TakesDenormalsForZero) {
  LocalModel model(dense({"sgd", {{"learning_rate", 0.5}}}));
  model.replace(std::vector<float>(kDenseChunk, 0.0f));
  EXPECT_EQ(model.update(std::vector<float>(kDenseChunk, 1e-39f), 1)[3], 0.0f);
}

// Adagrad's formula: accumulator += g^2, value -= rate * g / (sqrt(accumulator) + epsilon).
TEST(LocalModel, KeepsItsSlotsWhenWhatWasPulledTakesItsPlace) {
  LocalModel model(
      dense({"adagrad", {{"learning_rate", 0.1}, {"initial_accumulator_value", 1}, {"epsilon", 1e-7}}}));
  const std::vector<float> pulled(kDenseChunk, 5.0f), grads(kDenseChunk, 2.0f);
  model.replace(pulled);
  model.update(grads, 1);
  EXPECT_NEAR(model.values().span()[7], 5 - 0.1 * 2 / std::sqrt(1 + 4.0), 1e-6);
  model.replace(pulled);
  model.update(grads, 1);
  EXPECT_NEAR(model.values().span()[7], 5 - 0.1 * 2 / std::sqrt(1 + 4.0 + 4.0), 1e-6);
}

// Adam's first step equals the learning rate, whatever the gradient; its second one has another bias
// correction.
TEST(LocalModel, CountsItsStepsOverPulls) {
  LocalModel model(dense({"adam", {{"learning_rate", 0.1}, {"beta_1", 0.9}, {"beta_2", 0.99}}}));
  const std::vector<float> pulled(kDenseChunk, 0.0f);
  model.replace(pulled);
  model.update(std::vector<float>(kDenseChunk, 3.0f), 1);
  EXPECT_NEAR(model.values().span()[0], -0.1, 1e-6);
  model.replace(pulled);
  model.update(std::vector<float>(kDenseChunk, 1.0f), 1);
  const double m = (0.9 * 0.1 * 3 + 0.1 * 1) / (1 - 0.9 * 0.9);
  const double v = (0.99 * 0.01 * 9 + 0.01 * 1) / (1 - 0.99 * 0.99);
  EXPECT_NEAR(model.values().span()[0], -0.1 * m / std::sqrt(v), 1e-6);
}

// As its owner does, the model leaves the chunk out, and all other chunks go on.
TEST(LocalModel, AnInfiniteGradientChangesNothingOfItsChunk) {
  LocalModel model(dense({"adam", {{"learning_rate", 0.1}}}));
  model.replace(std::vector<float>(2 * kDenseChunk, 1.0f));
  std::vector<float> grads(2 * kDenseChunk, 3.0f);
  grads[5] = std::numeric_limits<float>::quiet_NaN();
  model.update(grads, 1);
  EXPECT_EQ(model.values().span()[0], 1.0f);
  EXPECT_NEAR(model.values().span()[kDenseChunk], 0.9f, 1e-6);
  grads[5] = 3.0f;
  model.update(grads, 2);
  EXPECT_LT(model.values().span()[5], 1.0f);
}

// The model's step, not the copy's.
TEST(LocalModel, TakesTheScheduledRateOfTheModelsStep) {
  UpdateRuleSpec sgd{"sgd", {}};
  sgd.schedule.name = "piecewise";
  sgd.schedule.boundaries = {40};
  sgd.schedule.values = {1, 0};
  LocalModel model(dense(sgd));
  model.replace(std::vector<float>(kDenseChunk, 5.0f));
  const std::vector<float> grads(kDenseChunk, 1.0f);
  model.update(grads, 1);
  EXPECT_EQ(model.values().span()[0], 4.0f);
  model.update(grads, 63);
  EXPECT_EQ(model.values().span()[0], 4.0f);
}

TEST(LocalModel, RefusesGradientsOfAnotherModel) {
  LocalModel model(dense({"sgd", {}}));
  model.replace(std::vector<float>(kDenseChunk));
  expect_error(ErrorCode::kInternal, {"2048", "1024"},
               [&] { model.update(std::vector<float>(2 * kDenseChunk), 1); });
}

}  // namespace
}  // namespace embers
