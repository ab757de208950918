// The step as a whole: dense parameters, buffers, bits, and what a user's model may do wrong.
#include "model/step.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstring>

#include "tests/model/toy.h"

namespace embers {
namespace {

using toy::ids_of;
using toy::Ints;

const std::vector<job::Feature> kFeatures{toy::feature("a", KeyKind::kInt64), toy::numeric("x"),
                                          toy::numeric("y")};

// Logistic model over two numerics, one embedding of dim 2 and whatever a test puts in between.
class Logistic : public Model {
 public:
  Logistic() {
    embedding_ = register_module("embedding", Embedding(toy::options("t", 2, {"a"}, Combiner::kSum)));
    linear_ = register_module("linear", torch::nn::Linear(4, 1));
  }
  torch::Tensor forward(const Batch& batch) override {
    const torch::Tensor x = at::cat({embedding_->forward(batch.ids("a")), batch.numeric()}, 1);
    return linear_->forward(hidden(x)).squeeze(1);
  }
  virtual torch::Tensor hidden(const torch::Tensor& x) { return x; }

 protected:
  Embedding embedding_{nullptr};
  torch::nn::Linear linear_{nullptr};
};

class WithBatchNorm : public Logistic {
 public:
  WithBatchNorm() { norm_ = register_module("norm", torch::nn::BatchNorm1d(4)); }
  torch::Tensor hidden(const torch::Tensor& x) override { return norm_->forward(x); }

 private:
  torch::nn::BatchNorm1d norm_{nullptr};
};

class WithTorchDropout : public Logistic {
 public:
  WithTorchDropout() { dropout_ = register_module("dropout", torch::nn::Dropout(0.5)); }
  torch::Tensor hidden(const torch::Tensor& x) override { return dropout_->forward(x); }

 private:
  torch::nn::Dropout dropout_{nullptr};
};

data::Minibatch minibatch(uint64_t index = 0) {
  data::Minibatch m =
      toy::minibatch_of({ids_of<int64_t>(Ints{{1, 2}, {}, {2}})}, {1, 0, 1}, {1, 2, 3, 4, -5, 6});
  m.index = index;
  return m;
}

std::vector<float> floats(const FloatBuffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

FloatBuffer filled(const ModelSpec& spec, bool buffer, float value) {
  FloatBuffer chunks(dense_chunks(spec, buffer).size() * kDenseChunk);
  std::fill_n(chunks.data(), chunks.size(), value);
  return chunks;
}

// All that a step gives, as bytes to compare.
std::vector<float> bits(const StepResult& result) {
  std::vector<float> all = result.scores;
  all.push_back(static_cast<float>(result.loss_sum));
  for (const FloatBuffer* part : {&result.dense, &result.buffers}) {
    const std::vector<float> values = floats(*part);
    all.insert(all.end(), values.begin(), values.end());
  }
  for (const IndexedSlices& slices : result.gradients) {
    const std::vector<float> values = floats(slices.values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

bool same_bits(const StepResult& a, const StepResult& b) {
  const std::vector<float> x = bits(a), y = bits(b);
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

StepResult step(ModelRunner& runner, const data::Minibatch& m, float parameters, float buffers) {
  toy::Server server;
  const Lookups lookups = runner.dedupe(m);
  PulledRows rows = server.pull(runner.spec(), lookups);
  rows.dense = filled(runner.spec(), false, parameters);
  if (!dense_chunks(runner.spec(), true).empty()) rows.buffers = filled(runner.spec(), true, buffers);
  return runner.train(m, lookups, std::move(rows), server.late());
}

TEST(Step, TrainsWithTheDenseParametersThatArrived) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<Logistic>());
  const StepResult result = step(*runner, minibatch(), 0.25f, 0);

  const torch::Tensor weight = toy::Server::dense(0, 3, 2);
  const torch::Tensor x = at::cat({at::stack({weight[1] + weight[2], torch::zeros({2}), weight[2]}),
                                   torch::tensor({1., 2., 3., 4., -5., 6.}).to(torch::kFloat).view({3, 2})},
                                  1);
  torch::Tensor w = torch::full({1, 4}, 0.25f).set_requires_grad(true);
  torch::Tensor b = torch::full({1}, 0.25f).set_requires_grad(true);
  const torch::Tensor logits = at::linear(x, w, b).squeeze(1);
  const torch::Tensor loss = at::binary_cross_entropy_with_logits(logits, torch::tensor({1.f, 0.f, 1.f}));
  loss.backward();
  EXPECT_NEAR(result.loss_sum, 3 * loss.item<double>(), 1e-5);
  EXPECT_EQ(result.examples, 3);
  toy::expect_near(result.scores, logits.sigmoid());
  const std::vector<float> dense = floats(result.dense);
  ASSERT_EQ(dense.size(), 2 * kDenseChunk);
  toy::expect_near({dense.begin(), dense.begin() + 4}, w.grad());
  toy::expect_near({dense.begin() + kDenseChunk, dense.begin() + kDenseChunk + 1}, b.grad());
  for (size_t i = 4; i < kDenseChunk; ++i) ASSERT_EQ(dense[i], 0) << "padding";
  EXPECT_EQ(result.buffers.size(), 0u);
}

TEST(Step, GivesTheSameBitsWhateverRanBefore) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<WithBatchNorm>());
  const StepResult first = step(*runner, minibatch(5), 0.25f, 1);
  data::Minibatch other = toy::minibatch_of({ids_of<int64_t>(Ints{{9}, {8}})}, {0, 1}, {9, 9, 8, 8});
  step(*runner, other, -3, 2);
  toy::Server server;
  toy::evaluate(*runner, server, other);
  EXPECT_TRUE(same_bits(first, step(*runner, minibatch(5), 0.25f, 1)));
  auto fresh = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<WithBatchNorm>());
  EXPECT_TRUE(same_bits(first, step(*fresh, minibatch(5), 0.25f, 1)));
  EXPECT_FALSE(same_bits(first, step(*runner, minibatch(5), 0.5f, 1)));
}

TEST(Step, SeedsTorchsOwnRandomLayersPerMinibatch) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<WithTorchDropout>());
  const StepResult first = step(*runner, minibatch(5), 0.25f, 0);
  bool another_mask = false;
  for (uint64_t index = 6; index < 16; ++index)
    another_mask = another_mask || !same_bits(first, step(*runner, minibatch(index), 0.25f, 0));
  EXPECT_TRUE(another_mask);
  EXPECT_TRUE(same_bits(first, step(*runner, minibatch(5), 0.25f, 0)));
}

TEST(Step, ReturnsNewBuffersAndTakesThemBack) {
  auto model = std::make_shared<WithBatchNorm>();
  auto runner = ModelRunner::make(toy::job_of(kFeatures), model);
  ASSERT_EQ(runner->spec().tables.back().name, kBufferTable);
  const StepResult result = step(*runner, minibatch(), 0.25f, 7);
  // running_mean, running_var, num_batches_tracked
  const std::vector<float> buffers = floats(result.buffers);
  ASSERT_EQ(buffers.size(), 3 * kDenseChunk);
  EXPECT_NEAR(buffers[2], 0.9f * 7 + 0.1f * (1 + 3 - 5) / 3, 1e-5);
  EXPECT_EQ(buffers[2 * kDenseChunk], 8);
  EXPECT_EQ(buffers[2 * kDenseChunk + 1], 0) << "padding";
  EXPECT_EQ(floats(dense_values(*model, runner->spec(), true)), buffers);
}

TEST(Step, EvaluatesWithTheRunningStatisticsAndChangesNothing) {
  auto model = std::make_shared<WithBatchNorm>();
  auto runner = ModelRunner::make(toy::job_of(kFeatures), model);
  const std::vector<float> parameters = floats(dense_values(*model, runner->spec(), false));
  const std::vector<float> buffers = floats(dense_values(*model, runner->spec(), true));
  toy::Server server;
  const StepResult result = toy::evaluate(*runner, server, minibatch());
  EXPECT_EQ(result.scores.size(), 3u);
  EXPECT_GT(result.loss_sum, 0);
  EXPECT_TRUE(result.gradients.empty());
  EXPECT_EQ(result.dense.size() + result.buffers.size(), 0u);
  EXPECT_EQ(floats(dense_values(*model, runner->spec(), false)), parameters);
  EXPECT_EQ(floats(dense_values(*model, runner->spec(), true)), buffers);
}

TEST(Step, KeepsDenseValuesWhenNoneArrive) {
  auto model = std::make_shared<Logistic>();
  auto runner = ModelRunner::make(toy::job_of(kFeatures), model);
  const std::vector<float> before = floats(dense_values(*model, runner->spec(), false));
  toy::Server server;
  toy::train(*runner, server, minibatch());
  EXPECT_EQ(floats(dense_values(*model, runner->spec(), false)), before);
}

TEST(Step, PredictsWithoutLabels) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<Logistic>());
  data::Minibatch unlabelled = minibatch();
  unlabelled.labels.clear();
  toy::Server server;
  const StepResult result = toy::evaluate(*runner, server, unlabelled);
  EXPECT_EQ(result.loss_sum, 0);
  EXPECT_EQ(result.scores, toy::evaluate(*runner, server, minibatch()).scores);
  toy::expect_invalid({"label"}, [&] { toy::train(*runner, server, unlabelled); });
}

TEST(Step, AcceptsAMinibatchWithoutExamples) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<WithBatchNorm>());
  step(*runner, minibatch(), 0.25f, 1);  // leaves gradients behind that must not show
  const data::Minibatch empty = toy::minibatch_of({ids_of<int64_t>(Ints{})});
  const StepResult result = step(*runner, empty, 0.25f, 3);
  EXPECT_EQ(result.loss_sum, 0);
  EXPECT_EQ(result.examples, 0);
  EXPECT_TRUE(result.scores.empty());
  EXPECT_TRUE(result.gradients.empty());
  EXPECT_EQ(floats(result.dense),
            std::vector<float>(dense_chunks(runner->spec(), false).size() * kDenseChunk, 0));
  EXPECT_EQ(result.buffers.data()[0], 3);
  toy::Server server;
  EXPECT_TRUE(toy::evaluate(*runner, server, empty).scores.empty());
}

// Parameters that the loss does not reach.
class HalfUsed : public Logistic {
 public:
  HalfUsed() { unused_ = register_parameter("unused", torch::ones({3})); }

 private:
  torch::Tensor unused_;
};

TEST(Step, GivesZeroGradientsToParametersThatTheLossDoesNotReach) {
  auto model = std::make_shared<HalfUsed>();
  auto runner = ModelRunner::make(toy::job_of(kFeatures), model);
  ASSERT_EQ(runner->spec().dense[0].name, "unused");
  const StepResult result = step(*runner, minibatch(), 0.25f, 0);
  EXPECT_EQ(std::vector<float>(result.dense.data(), result.dense.data() + 3), std::vector<float>(3, 0));
  EXPECT_NE(result.dense.data()[kDenseChunk], 0);
}

class Constant : public Logistic {
 public:
  torch::Tensor loss(const torch::Tensor&, const Batch&) override { return torch::tensor(2.0f); }
};

TEST(Step, AcceptsALossWithoutAnyGradient) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<Constant>());
  const StepResult result = step(*runner, minibatch(), 0.25f, 0);
  EXPECT_EQ(result.loss_sum, 6);
  EXPECT_TRUE(result.gradients.empty());
  EXPECT_EQ(floats(result.dense), std::vector<float>(2 * kDenseChunk, 0));
}

TEST(Step, CutsLargeParametersIntoChunks) {
  auto model = std::make_shared<toy::ToyModel>([](toy::ToyModel&, const Batch&) {
    return torch::zeros({1, 1});
  });
  auto linear =
      model->add("linear", torch::nn::Linear(700, 3));  // 2100 elements: 3 chunks, and one for the bias
  {
    const torch::NoGradGuard no_grad;
    linear->weight.copy_(at::arange(2100).view({3, 700}));
    linear->bias.fill_(-1);
  }
  const ModelSpec spec = model_spec(*model, toy::job_of({toy::numeric("x")}));
  const std::vector<float> values = floats(dense_values(*model, spec, false));
  ASSERT_EQ(values.size(), 4 * kDenseChunk);
  EXPECT_EQ(values[2099], 2099);
  EXPECT_EQ(values[2100], 0);
  EXPECT_EQ(values[3 * kDenseChunk + 2], -1);
  EXPECT_EQ(values[3 * kDenseChunk + 3], 0);
}

TEST(Step, RefusesDenseRowsOfAnotherSize) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<Logistic>());
  toy::Server server;
  const data::Minibatch m = minibatch();
  const Lookups lookups = runner->dedupe(m);
  PulledRows rows = server.pull(runner->spec(), lookups);
  rows.dense = FloatBuffer(kDenseChunk);
  toy::expect_thrown(ErrorCode::kInternal, {"parameters"},
                     [&] { runner->train(m, lookups, std::move(rows), server.late()); });
}

// What users' code does wrong becomes an Error that names the model.
void expect_model_error(const std::vector<std::string>& parts, const toy::ToyModel::Forward& forward) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures, "mine"), std::make_shared<toy::ToyModel>(forward));
  toy::Server server;
  toy::expect_invalid(parts, [&] { toy::train(*runner, server, minibatch()); });
}

TEST(Step, NamesTheModelThatThrows) {
  expect_model_error({"'mine'", "forward", "shape '[7]' is invalid"},
                     [](toy::ToyModel&, const Batch& batch) { return batch.numeric().view({7}); });
  expect_model_error({"'mine'", "forward", "no luck"}, [](toy::ToyModel&, const Batch&) -> torch::Tensor {
    throw std::runtime_error("no luck\nsecond line");
  });
  expect_model_error({"'mine'", "forward", "did not return a tensor"},
                     [](toy::ToyModel&, const Batch&) { return torch::Tensor(); });
  expect_model_error({"'mine'", "score", "2 numbers for 3"}, [](toy::ToyModel&, const Batch&) {
    return torch::ones({2, 1});
  });
}

TEST(Step, ShowsOnlyTheFirstLineOfAMessage) {
  auto runner =
      ModelRunner::make(toy::job_of(kFeatures),
                        std::make_shared<toy::ToyModel>([](toy::ToyModel&, const Batch&) -> torch::Tensor {
                          throw std::runtime_error("no luck\nsecond line");
                        }));
  toy::Server server;
  const toy::Thrown thrown = toy::thrown_by([&] { toy::train(*runner, server, minibatch()); });
  EXPECT_EQ(thrown.what.find("second line"), std::string::npos);
}

TEST(Step, SuggestsTheNearestFeature) {
  expect_model_error({"'aa'", "did you mean 'a'"}, [](toy::ToyModel&, const Batch& batch) {
    batch.ids("aa");
    return torch::Tensor();
  });
}

class Bad : public Logistic {
 public:
  explicit Bad(torch::Tensor loss) : loss_(std::move(loss)) {}
  torch::Tensor loss(const torch::Tensor& output, const Batch&) override { return output.sum() * 0 + loss_; }

 private:
  torch::Tensor loss_;
};

TEST(Step, NamesTheMinibatchWhoseLossIsNotFinite) {
  for (const float loss : {NAN, INFINITY}) {
    auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<Bad>(torch::tensor(loss)));
    data::Minibatch m = minibatch(42);
    m.epoch = 3;
    toy::Server server;
    toy::expect_thrown(ErrorCode::kInvalid, {"minibatch 42 of epoch 3", "learning_rate"},
                       [&] { toy::train(*runner, server, m); });
    toy::expect_thrown(ErrorCode::kInvalid, {"minibatch 42"}, [&] { toy::evaluate(*runner, server, m); });
  }
}

TEST(Step, RefusesALossThatIsNoScalar) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<Bad>(torch::ones({3})));
  toy::Server server;
  toy::expect_invalid({"loss", "3"}, [&] { toy::train(*runner, server, minibatch()); });
}

// The default loss would broadcast [N, 1] against [N] into something else.
class Column : public Logistic {
 public:
  torch::Tensor forward(const Batch& batch) override { return Logistic::forward(batch).unsqueeze(1); }
};

TEST(Step, RefusesLogitsOfAnotherShapeForTheDefaultLoss) {
  auto runner = ModelRunner::make(toy::job_of(kFeatures), std::make_shared<Column>());
  toy::Server server;
  toy::expect_invalid({"[3]", "[3, 1]"}, [&] { toy::train(*runner, server, minibatch()); });
}

TEST(Step, LayersAreUsableAgainAfterAnError) {
  bool broken = true;
  auto model = std::make_shared<toy::ToyModel>([&](toy::ToyModel& m, const Batch& batch) {
    auto layer = std::dynamic_pointer_cast<EmbeddingImpl>(m.children().front());
    const torch::Tensor rows = layer->forward(batch.ids("a"));
    if (broken) throw std::runtime_error("once");
    return rows;
  });
  model->add("layer", Embedding(toy::options("t", 2, {"a"}, Combiner::kSum)));
  auto runner = ModelRunner::make(toy::job_of(kFeatures), model);
  toy::Server server;
  toy::expect_invalid({"once"}, [&] { toy::train(*runner, server, minibatch()); });
  broken = false;
  EXPECT_EQ(toy::train(*runner, server, minibatch()).gradients.size(), 1u);
}

}  // namespace
}  // namespace embers
