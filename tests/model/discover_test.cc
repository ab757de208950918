#include "model/discover.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "model/step.h"
#include "tests/model/toy.h"

namespace embers {
namespace {

const std::vector<job::Feature> kFeatures{toy::feature("age", KeyKind::kInt64),
                                          toy::feature("job", KeyKind::kBytes)};

std::shared_ptr<toy::ToyModel> bare() {
  return std::make_shared<toy::ToyModel>([](toy::ToyModel&, const Batch&) { return torch::Tensor(); });
}

std::shared_ptr<toy::ToyModel> with(const std::vector<EmbeddingOptions>& layers) {
  auto model = bare();
  for (const EmbeddingOptions& options : layers)
    model->add(fmt::format("l{}", model->children().size()), Embedding(options));
  return model;
}

// A module that hides layers one level down.
struct Tower : torch::nn::Module {
  Tower() {
    register_module("inner", Embedding(toy::options("deep", 4, {"age"})));
    register_module("linear", torch::nn::Linear(2, 1));
    register_module("norm", torch::nn::BatchNorm1d(2));
  }
};

TEST(Discovery, WalksNestedModulesAndPutsReservedTablesLast) {
  auto model = with({toy::options("wide", 1, {"job"}, Combiner::kSum, KeyKind::kBytes)});
  model->add("tower", std::make_shared<Tower>());
  job::Job job = toy::job_of(kFeatures);
  job.optimizer = {"adam", {{"learning_rate", 0.5}}};
  const ModelSpec spec = model_spec(*model, job);
  ASSERT_EQ(spec.tables.size(), 4u);
  EXPECT_EQ(spec.tables[0].name, "wide");
  EXPECT_EQ(spec.tables[0].key_kind, KeyKind::kBytes);
  EXPECT_EQ(spec.tables[0].update_rule, job.optimizer);
  EXPECT_EQ(spec.tables[1].name, "deep");
  EXPECT_EQ(spec.tables[1].dim, 4u);
  EXPECT_EQ(spec.tables[2].name, kDenseTable);
  EXPECT_EQ(spec.tables[2].dim, kDenseChunk);
  EXPECT_EQ(spec.tables[2].update_rule, job.optimizer);
  EXPECT_EQ(spec.tables[2].accumulation, Accumulation::kSum);
  EXPECT_EQ(spec.tables[3].name, kBufferTable);
  EXPECT_EQ(spec.tables[3].update_rule.name, "assign");
  EXPECT_EQ(spec.tables[3].accumulation, Accumulation::kLast);
  std::vector<std::string> dense;
  for (const DenseParam& p : spec.dense) dense.push_back(p.name);
  EXPECT_EQ(dense, (std::vector<std::string>{"tower.linear.weight", "tower.linear.bias", "tower.norm.weight",
                                             "tower.norm.bias", "tower.norm.running_mean",
                                             "tower.norm.running_var", "tower.norm.num_batches_tracked"}));
}

TEST(Discovery, OfAModelWithoutAnythingIsEmpty) {
  const ModelSpec spec = model_spec(*bare(), toy::job_of(kFeatures));
  EXPECT_TRUE(spec.tables.empty());
  EXPECT_TRUE(spec.dense.empty());
  EXPECT_FALSE(spec.has_embeddings());
}

TEST(Discovery, CountsALayerThatIsRegisteredTwiceOnce) {
  auto model = bare();
  Embedding layer(toy::options("t", 4, {"age"}));
  model->add("one", layer);
  model->add("two", layer);
  const Discovery found = discover(*model, toy::job_of(kFeatures));
  EXPECT_EQ(found.layers.size(), 1u);
  EXPECT_EQ(found.plan.sources.size(), 1u);
}

TEST(Discovery, ListsAFeatureThatALayerNamesTwiceOnce) {
  const Discovery found = discover(*with({toy::options("t", 4, {"age", "age"})}), toy::job_of(kFeatures));
  EXPECT_EQ(found.plan.sources.size(), 1u);
}

TEST(Discovery, OrdersTheSourcesOfATableByLayer) {
  const Discovery found = discover(
      *with({toy::options("t", 4, {"age"}), toy::options("u", 4, {"age"}), toy::options("t", 4, {"age"})}),
      toy::job_of(kFeatures));
  ASSERT_EQ(found.plan.sources.size(), 3u);
  EXPECT_EQ(found.plan.sources[0].layer, 0u);
  EXPECT_EQ(found.plan.sources[1].layer, 2u);
  EXPECT_EQ(found.plan.sources[2].table, 1u);
}

void expect_refused(const std::vector<std::string>& parts, const std::vector<EmbeddingOptions>& layers) {
  toy::expect_invalid(parts, [&] { model_spec(*with(layers), toy::job_of(kFeatures)); });
}

TEST(Discovery, RefusesLayersThatDisagreeAboutTheirTable) {
  const EmbeddingOptions a = toy::options("t", 4, {});
  EmbeddingOptions b = a;
  b.output_dim = 8;
  expect_refused({"'l0'", "'l1'", "'t'", "dim 4 and dim 8"}, {a, b});
  b = a;
  b.key_kind = KeyKind::kBytes;
  expect_refused({"'l0'", "'l1'", "'t'", "int64 keys and bytes keys"}, {a, b});
  b = a;
  b.initializer = {"zeros", {}};
  expect_refused({"'l0'", "'l1'", "'uniform' and 'zeros'"}, {a, b});
  b = a;
  b.input_dim = 100;
  expect_refused({"'l0'", "'l1'", "input_dim 0 and input_dim 100"}, {a, b});
}

TEST(Discovery, AcceptsLayersThatShareATableInDifferentWays) {
  EmbeddingOptions a = toy::options("t", 4, {"age"}), b = toy::options("t", 4, {}, Combiner::kMean);
  b.mask_zero = true;
  EXPECT_EQ(model_spec(*with({a, b}), toy::job_of(kFeatures)).tables.size(), 1u);
}

std::vector<std::string> tables_of(const std::vector<EmbeddingOptions>& layers) {
  std::vector<std::string> names;
  for (const TableSpec& table : model_spec(*with(layers), toy::job_of(kFeatures)).tables)
    names.push_back(table.name);
  return names;
}

TEST(Discovery, NamesLayersWithoutATableAsKerasDoes) {
  const EmbeddingOptions unnamed(4);
  EXPECT_EQ(tables_of({unnamed, toy::options("t", 4, {}), unnamed, unnamed}),
            (std::vector<std::string>{"embedding", "t", "embedding_1", "embedding_2"}));
  EXPECT_EQ(tables_of({unnamed, unnamed, toy::options("embedding_1", 4, {})}),
            (std::vector<std::string>{"embedding", "embedding_2", "embedding_1"}))
      << "a name that was given is left out, wherever it occurs";
}

TEST(Discovery, NamesAModelsLayersTheSameEveryTime) {
  auto model = with({EmbeddingOptions(4), EmbeddingOptions(8)});
  for (int time = 0; time < 2; ++time) {
    const ModelSpec spec = model_spec(*model, toy::job_of(kFeatures));
    ASSERT_EQ(spec.tables.size(), 2u);
    EXPECT_EQ(spec.tables[0].name, "embedding");
    EXPECT_EQ(spec.tables[1].name, "embedding_1");
    EXPECT_EQ(spec.tables[1].dim, 8u);
  }
}

TEST(Discovery, TakesTheKindOfKeysFromTheFeatures) {
  const auto kind = [](std::vector<EmbeddingOptions> layers, size_t table = 0) {
    return model_spec(*with(layers), toy::job_of(kFeatures)).tables.at(table).key_kind;
  };
  EmbeddingOptions ints("t", 4), bytes("t", 4), none("t", 4);
  ints.features = {"age"};
  bytes.features = {"job"};
  EXPECT_EQ(kind({ints}), KeyKind::kInt64);
  EXPECT_EQ(kind({bytes}), KeyKind::kBytes);
  EXPECT_EQ(kind({none}), KeyKind::kBytes);
  EXPECT_EQ(kind({none, ints}), KeyKind::kInt64) << "of another layer on the table";
  EmbeddingOptions other("u", 4);
  EXPECT_EQ(kind({ints, other}, 1), KeyKind::kBytes);
  expect_refused({"'l0'", "'l1'", "'t'", "int64 keys and bytes keys"}, {ints, bytes});
  ints.features = {"age", "job"};
  expect_refused({"'l0'", "'job'", "bytes", "int64"}, {ints});
}

TEST(Discovery, RefusesADefaultIdOfTheOtherKind) {
  EmbeddingOptions options("t", 4);
  options.features = {"age"};
  options.combiner = Combiner::kMean;
  options.default_id = "none";
  expect_refused({"'t'", "int64 keys", "default_id", "bytes"}, {options});
}

TEST(Discovery, RefusesFeaturesThatTheDataDoesNotHave) {
  expect_refused({"'l0'", "'agee'", "did you mean 'age'"}, {toy::options("t", 4, {"agee"})});
  expect_refused({"'l0'", "'age'", "bytes", "int64"},
                 {toy::options("t", 4, {"age"}, Combiner::kSum, KeyKind::kBytes)});
}

TEST(Discovery, RefusesADimThatTheModelDidNotTake) {
  job::Job job = toy::job_of(kFeatures);
  job::TableOverride entry;
  entry.match = "t";
  entry.dim = 16;
  job.storage.tables.push_back(entry);
  toy::expect_invalid({"16", "t"}, [&] { model_spec(*with({toy::options("t", 4, {"age"})}), job); });
}

TEST(Discovery, RefusesParametersThatAreNotFloat32) {
  struct Double : torch::nn::Module {
    Double() { register_parameter("weight", torch::zeros({2}, torch::kDouble)); }
  };
  auto model = bare();
  model->add("tower", std::make_shared<Double>());
  toy::expect_invalid({"'tower.weight'", "Double", "float32"},
                      [&] { model_spec(*model, toy::job_of(kFeatures)); });
  struct Bool : torch::nn::Module {
    Bool() { register_buffer("flags", torch::zeros({2}, torch::kBool)); }
  };
  model = bare();
  model->add("tower", std::make_shared<Bool>());
  toy::expect_invalid({"'tower.flags'", "Bool", "int64"},
                      [&] { model_spec(*model, toy::job_of(kFeatures)); });
}

}  // namespace
}  // namespace embers
