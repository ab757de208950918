// tf.feature_column's columns in C++: names, parameters, and the input they build, against dense arithmetic.
#include "model/columns/feature_column.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/toy.h"

namespace embers {
namespace {

using toy::Ints;
using toy::Strings;

std::vector<job::Feature> features() {
  return {toy::feature("n", KeyKind::kInt64), toy::feature("m", KeyKind::kInt64),
          toy::feature("town", KeyKind::kBytes), toy::numeric("h"), toy::numeric("w")};
}

data::Minibatch minibatch() {
  return toy::minibatch_of(
      {toy::ids_of<int64_t>(Ints{{1, 3}, {}, {2}}), toy::ids_of<int64_t>(Ints{{4}, {1}, {7}}),
       toy::ids_of<std::string>(Strings{{"a"}, {"b", "c"}, {"?"}})},
      {}, {-1, 2, 0.5, 0, 10, 4});
}

class InputLayerTest : public testing::Test {
 protected:
  // Trains one minibatch on a model whose output is the layer's.
  StepResult train(const std::vector<DenseColumn>& columns, data::Minibatch m = minibatch()) {
    const job::Job job = toy::job_of(features());
    auto model = std::make_shared<toy::ToyModel>([this](toy::ToyModel&, const Batch& batch) {
      seen_ = layer_->forward(batch);
      return seen_ * (at::arange(1, seen_.numel() + 1).to(torch::kFloat).view(seen_.sizes()) / 7);
    });
    layer_ = model->add("input", InputLayer(columns, ModelConfig(job)));
    runner_ = ModelRunner::make(job, model);
    minibatch_ = std::move(m);
    runner_->add_columns(minibatch_);
    return toy::train(*runner_, server_, minibatch_);
  }
  std::vector<std::string> tables() const {
    std::vector<std::string> names;
    for (const TableSpec& table : runner_->spec().tables) names.push_back(table.name);
    return names;
  }

  InputLayer layer_{nullptr};
  std::unique_ptr<ModelRunner> runner_;
  data::Minibatch minibatch_;
  toy::Server server_;
  torch::Tensor seen_;
};

torch::Tensor rows(std::vector<std::vector<float>> values) {
  std::vector<torch::Tensor> all;
  for (const auto& row : values) all.push_back(torch::tensor(row));
  return at::stack(all);
}

#define EXPECT_TENSOR(got, wanted) EXPECT_TRUE(at::allclose(got, wanted, 1e-5, 1e-6)) << (got) << (wanted)

TEST(CategoricalColumns, HaveTensorFlowsNames) {
  const CategoricalColumn bucket = bucketized_column("price", {1, 2});
  EXPECT_EQ(bucket.name(), "price_bucketized");
  EXPECT_EQ(crossed_column({"town", bucket}, 10).name(), "price_bucketized_X_town");
  EXPECT_EQ(crossed_column({crossed_column({"z", "b"}, 5), "a"}, 10).name(), "a_X_b_X_z");
  const CategoricalColumn weighted =
      weighted_categorical_column(categorical_column_with_hash_bucket("t", 4), "w");
  EXPECT_EQ(weighted.name(), "t_weighted_by_w");
  EXPECT_EQ(embedding_column(weighted, 3).name, "t_weighted_by_w_embedding");
  EXPECT_EQ(indicator_column(bucket).name, "price_bucketized_indicator");
  const auto shared = shared_embedding_columns(
      {categorical_column_with_embedding("b"), categorical_column_with_embedding("a")}, 3);
  EXPECT_EQ(shared[0].name, "b_shared_embedding");
  EXPECT_EQ(shared[0].table, "a_b_shared_embedding");
  EXPECT_EQ(shared[1].table, "a_b_shared_embedding");
}

TEST(CategoricalColumns, RefuseWhatTensorFlowRefuses) {
  using C = CategoricalColumn;
  const C hashed = categorical_column_with_hash_bucket("t", 4);
  const std::pair<std::vector<std::string>, std::function<void()>> cases[] = {
      {{"'a'", "num_buckets is 0"}, [] { categorical_column_with_identity("a", 0); }},
      {{"'a'", "default_value is 3"}, [] { categorical_column_with_identity("a", 3, 3); }},
      {{"'a'", "hash_bucket_size is 0"}, [] { categorical_column_with_hash_bucket("a", 0); }},
      {{"'a'", "is empty"}, [] { categorical_column_with_vocabulary_list("a", std::vector<std::string>()); }},
      {{"'a'", "'x' twice"},
       [] {
         categorical_column_with_vocabulary_list("a", {std::string("x"), std::string("x")});
       }},
      {{"'a'", "cannot be combined"},
       [] { categorical_column_with_vocabulary_list("a", std::vector<int64_t>{1}, 0, 1); }},
      {{"'a'", "num_oov_buckets is -1"},
       [] { categorical_column_with_vocabulary_list("a", std::vector<int64_t>{1}, std::nullopt, -1); }},
      {{"'a'", "cannot read"}, [] { categorical_column_with_vocabulary_file("a", "/none/such"); }},
      {{"'a_bucketized'", "boundaries"}, [] { bucketized_column("a", {}); }},
      {{"'a_bucketized'", "boundaries"},
       [] {
         bucketized_column("a", {2, 1});
       }},
      {{"at least two"}, [] { crossed_column({"a"}, 3); }},
      {{"'a_X_b'", "hash_bucket_size is 0"},
       [] {
         crossed_column({"a", "b"}, 0);
       }},
      {{"'t'", "hashed already"},
       [=] {
         crossed_column({"a", hashed}, 3);
       }},
      {{"cannot take"},
       [] {
         crossed_column({"a", weighted_categorical_column(categorical_column_with_embedding("t"), "w")}, 3);
       }},
      {{"has weights already"},
       [=] { weighted_categorical_column(weighted_categorical_column(hashed, "w"), "w"); }},
      {{"'t_embedding'", "dimension is 0"}, [=] { embedding_column(hashed, 0); }},
      {{"'t_embedding'", "combiner"},
       [=] {
         embedding_column(hashed, 2, {Combiner::kNone, std::nullopt, 0, false});
       }},
  };
  for (const auto& [parts, call] : cases) toy::expect_invalid(parts, call);
}

TEST(EmbeddingColumn, StartsTruncatedNormalByItsDimension) {
  const DenseColumn column = embedding_column(categorical_column_with_embedding("t"), 16);
  EXPECT_EQ(column.initializer.name, "truncated_normal");
  EXPECT_EQ(column.initializer.params.at("stddev"), 0.25);
  EXPECT_EQ(column.combiner, Combiner::kMean);
}

TEST_F(InputLayerTest, PutsColumnsBesideEachOtherInOrderOfTheirNames) {
  train(
      {numeric_column("w"), indicator_column(categorical_column_with_identity("m", 8)), numeric_column("h")});
  EXPECT_EQ(layer_->total(), 10);
  EXPECT_EQ(layer_->parts()[1].name, "m_indicator");
  EXPECT_EQ(layer_->parts()[1].width, 8);
  EXPECT_TENSOR(seen_, rows({{-1, 0, 0, 0, 0, 1, 0, 0, 0, 2},
                             {0.5, 0, 1, 0, 0, 0, 0, 0, 0, 0},
                             {10, 0, 0, 0, 0, 0, 0, 0, 1, 4}}));
}

TEST_F(InputLayerTest, EmbedsEveryKindOfColumn) {
  const CategoricalColumn bucket = bucketized_column("h", {0, 1});  // 0, 1, 2
  const CategoricalColumn town =
      categorical_column_with_vocabulary_list("town", {std::string("b"), std::string("a")});
  const StepResult result = train(
      {embedding_column(bucket, 2), embedding_column(town, 3, {Combiner::kSum, std::nullopt, 0, true})});
  ASSERT_EQ(tables(), (std::vector<std::string>{"h_bucketized_embedding", "town_embedding"}));
  const torch::Tensor h = toy::Server::dense(0, 3, 2), t = toy::Server::dense(1, 2, 3);
  EXPECT_TENSOR(seen_, at::cat({h, at::stack({t[1], t[0], torch::zeros({3})})}, 1));
  ASSERT_EQ(result.gradients.size(), 2u);
  EXPECT_EQ(toy::by_key(result.gradients[1]).size(), 2u);
  EXPECT_TRUE(server_.late_keys.empty()) << "all columns are pulled ahead of the pass";
}

TEST_F(InputLayerTest, RawKeysAreThoseOfTheData) {
  train({embedding_column(categorical_column_with_embedding("town"), 2),
         embedding_column(categorical_column_with_embedding("n"), 2)});
  EXPECT_EQ(runner_->spec().tables[0].key_kind, KeyKind::kInt64);
  EXPECT_EQ(runner_->spec().tables[1].key_kind, KeyKind::kBytes);
  EXPECT_EQ(minibatch_.ids.size(), 3u) << "nothing is derived";
  const torch::Tensor n = toy::Server::dense(0, 4, 2);
  EXPECT_TENSOR(seen_.narrow(1, 0, 2), at::stack({(n[1] + n[3]) / 2, torch::zeros({2}), n[2]}));
}

TEST_F(InputLayerTest, WeighsIdsByANumericFeature) {
  const CategoricalColumn weighted =
      weighted_categorical_column(categorical_column_with_identity("m", 8), "w");
  train(
      {embedding_column(weighted, 2, {Combiner::kSum, std::nullopt, 0, false}), indicator_column(weighted)});
  const torch::Tensor m = toy::Server::dense(0, 8, 2);
  EXPECT_TENSOR(seen_.narrow(1, 0, 2), at::stack({2 * m[4], 0 * m[1], 4 * m[7]}));
  EXPECT_TENSOR(seen_.narrow(1, 2, 8),
                rows({{0, 0, 0, 0, 2, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 4}}));
  EXPECT_EQ(minibatch_.ids.size(), 4u) << "two columns of the same ids are one feature";
}

TEST_F(InputLayerTest, ClipsRowsToMaxNorm) {
  train({embedding_column(categorical_column_with_embedding("m"), 3,
                          {Combiner::kMean, std::nullopt, 0.5, false})});
  EXPECT_LE(seen_.norm(2, 1).max().item<double>(), 0.5 + 1e-6);
  EXPECT_GT(
      toy::Server::dense(0, 8, 3).norm(2, 1).index_select(0, torch::tensor({4, 1, 7})).max().item<double>(),
      0.5);
}

TEST_F(InputLayerTest, SharedColumnsHaveOneTable) {
  const StepResult result = train(shared_embedding_columns(
      {categorical_column_with_embedding("n"), categorical_column_with_identity("m", 10)}, 2));
  EXPECT_EQ(tables(), std::vector<std::string>{"m_n_shared_embedding"});
  EXPECT_EQ(toy::by_key(result.gradients.at(0)).size(), 5u) << "1, 2, 3, 4 and 7";
  EXPECT_EQ(layer_->parts()[0].name, "m_shared_embedding");
}

TEST_F(InputLayerTest, CrossesFeaturesAsTheDecoderDoes) {
  train({indicator_column(crossed_column({bucketized_column("h", {0, 1}), "town"}, 5, 5))});
  EXPECT_TENSOR(seen_.sum(1), torch::tensor({1.f, 2.f, 1.f}));
}

TEST_F(InputLayerTest, NamesColumnsThatTheDataDoesNotFit) {
  toy::expect_invalid({"'twon'", "did you mean 'town'"},
                      [&] { train({embedding_column(categorical_column_with_hash_bucket("twon", 3), 2)}); });
  toy::expect_invalid({"'hh'", "no numeric feature"}, [&] { train({numeric_column("hh")}); });
  toy::expect_invalid({"'town_indicator'", "any"},
                      [&] { train({indicator_column(categorical_column_with_embedding("town"))}); });
  toy::expect_invalid({"'h'", "twice"}, [&] { train({numeric_column("h"), numeric_column("h")}); });
  toy::expect_invalid({"record 0", "'m'", "4 is outside [0, 3)"},
                      [&] { train({indicator_column(categorical_column_with_identity("m", 3))}); });
  toy::expect_invalid({"at least one column"}, [&] { train({}); });
}

// [columns] of a job over the same features.
job::Job declared(const std::string& columns, const std::string& model = "dnn") {
  return job::parse_job({"job.toml",
                         "[model]\nname = \"" + model +
                             "\"\n[data]\ntrain = \"t\"\ncolumns = [ { name = \"a\", type = \"int\" }, "
                             "{ name = \"b\" }, { name = \"h\", type = \"float\" } ]\n[features]\n"
                             "a = { as = \"identity\", num_buckets = 3 }\nb = {}\nh = {}\n" +
                             columns,
                         {}});
}

std::vector<std::string> names(const std::vector<DenseColumn>& columns) {
  std::vector<std::string> names;
  for (const DenseColumn& column : columns) names.push_back(column.name);
  return names;
}

TEST(DeclaredColumns, AreThoseOfTheJobFile) {
  const auto columns = declared_columns(ModelConfig(declared(R"([columns]
a = { as = "indicator" }
b = { as = "embedding", dimension = 5, combiner = "sum", max_norm = 2 }
h = { as = "numeric" }
both = { as = "shared_embedding", features = ["a", "b"], dimension = 2 })")),
                                        8);
  EXPECT_EQ(names(columns), (std::vector<std::string>{"a_indicator", "b_embedding", "h", "a_shared_embedding",
                                                      "b_shared_embedding"}));
  EXPECT_EQ(columns[1].dimension, 5);
  EXPECT_EQ(columns[1].combiner, Combiner::kSum);
  EXPECT_EQ(columns[1].max_norm, 2);
  EXPECT_EQ(columns[3].table, "a_b_shared_embedding");
}

TEST(DeclaredColumns, AreAllFeaturesWithoutAny) {
  const auto columns = declared_columns(ModelConfig(declared("")), 8);
  EXPECT_EQ(names(columns), (std::vector<std::string>{"h", "a_embedding", "b_embedding"}));
  EXPECT_EQ(columns[1].dimension, 8);
}

TEST(DeclaredColumns, BuildTheInputOfTheDnn) {
  const auto runner = ModelRunner::make(
      declared("[columns]\na = { as = \"indicator\" }\nb = { as = \"embedding\", dimension = 5 }\n"));
  ASSERT_FALSE(runner->spec().tables.empty());
  EXPECT_EQ(runner->spec().tables[0].name, "b_embedding");
  EXPECT_EQ(runner->spec().tables[0].dim, 5u);
}

TEST(DeclaredColumns, AreRefusedForAModelThatReadsNone) {
  toy::expect_invalid({"job.toml:", "'deepfm'", "reads no [columns]"},
                      [] { make_model(declared("[columns]\na = { as = \"indicator\" }\n", "deepfm")); });
}

}  // namespace
}  // namespace embers
