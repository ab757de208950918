#include "model/layers/dropout.h"

#include <gtest/gtest.h>

#include "tests/model/toy.h"

namespace embers {
namespace {

// Output for a matrix of ones, in training.
torch::Tensor mask(double rate, uint64_t seed, uint64_t layer, uint64_t epoch, uint64_t index,
                   std::vector<int64_t> shape = {40, 50}) {
  data::Minibatch minibatch;
  minibatch.epoch = epoch;
  minibatch.index = index;
  const data::FeatureSchema schema;
  Dropout dropout(rate, seed, layer);
  return dropout->forward(torch::ones(shape), Batch(minibatch, schema));
}

TEST(Dropout, DependsOnSeedMinibatchAndLayerOnly) {
  const torch::Tensor one = mask(0.5, 1, 2, 3, 4);
  mask(0.5, 9, 9, 9, 9);
  EXPECT_TRUE(at::equal(one, mask(0.5, 1, 2, 3, 4)));
  EXPECT_FALSE(at::equal(one, mask(0.5, 0, 2, 3, 4)));
  EXPECT_FALSE(at::equal(one, mask(0.5, 1, 0, 3, 4)));
  EXPECT_FALSE(at::equal(one, mask(0.5, 1, 2, 0, 4)));
  EXPECT_FALSE(at::equal(one, mask(0.5, 1, 2, 3, 0)));
}

TEST(Dropout, DropsTheRightShareAndScalesTheRest) {
  for (const double rate : {0.1, 0.5, 0.9}) {
    const torch::Tensor out = mask(rate, 1, 2, 3, 4, {200, 500});
    const torch::Tensor dropped = out.eq(0);
    EXPECT_NEAR(dropped.to(torch::kFloat).mean().item<double>(), rate, 0.01);
    EXPECT_TRUE(at::allclose(out.masked_select(~dropped), torch::full({1}, 1 / (1 - rate))));
  }
}

TEST(Dropout, IsTheIdentityInEvaluationAndAtRateZero) {
  data::Minibatch minibatch;
  const data::FeatureSchema schema;
  Dropout dropout(0.5, 1, 2);
  dropout->eval();
  const torch::Tensor x = torch::randn({4, 4});
  EXPECT_TRUE(at::equal(dropout->forward(x, Batch(minibatch, schema)), x));
  EXPECT_TRUE(at::equal(mask(0, 1, 2, 3, 4), torch::ones({40, 50})));
}

TEST(Dropout, GivesGradientsToWhatItKeptOnly) {
  data::Minibatch minibatch;
  const data::FeatureSchema schema;
  Dropout dropout(0.5, 1, 2);
  const torch::Tensor x = torch::ones({10, 10}).set_requires_grad(true);
  const torch::Tensor out = dropout->forward(x, Batch(minibatch, schema));
  out.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), out.detach()));
}

TEST(Dropout, RefusesRatesThatAreNone) {
  for (const double rate : {-0.1, 1.0, 1.5, static_cast<double>(NAN)})
    toy::expect_invalid({"dropout rate"}, [rate] { Dropout dropout(rate, 1, 2); });
}

}  // namespace
}  // namespace embers
