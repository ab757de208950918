// Every built-in model, on every mixture of features.
#include <gtest/gtest.h>

#include <random>

#include "tests/model/toy.h"

namespace embers {
namespace {

// Two categorical features, one of them multi-valued, and two numerics; the label follows from both kinds.
data::Minibatch teacher(int64_t n, bool categorical, bool numeric, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  toy::Ints a;
  toy::Strings tags;
  data::Minibatch m;
  m.examples = n;
  for (int64_t e = 0; e < n; ++e) {
    const auto id = static_cast<int64_t>(random() % 6);
    a.push_back({id});
    tags.emplace_back();
    for (uint64_t t = random() % 3; t > 0; --t) tags.back().push_back("tag" + std::to_string(random() % 4));
    const float x = normal(random), y = normal(random);
    if (numeric) m.numeric.insert(m.numeric.end(), {x, y});
    m.labels.push_back((categorical ? (id < 3 ? 1.f : -1.f) : 0) + (numeric ? x : 0) > 0 ? 1.f : 0.f);
  }
  if (categorical) m.ids = {toy::ids_of<int64_t>(a), toy::ids_of<std::string>(tags)};
  return m;
}

std::vector<job::Feature> features(bool categorical, bool numeric) {
  std::vector<job::Feature> all;
  if (categorical) all = {toy::feature("a", KeyKind::kInt64), toy::feature("tags", KeyKind::kBytes)};
  if (numeric) all.insert(all.end(), {toy::numeric("x"), toy::numeric("y")});
  return all;
}

// Trains on one minibatch by plain gradient descent, rows kept in a map. Returns the mean loss of the last
// step.
class Trainer {
 public:
  explicit Trainer(const job::Job& job) : runner_(ModelRunner::make(job)) {
    dense_ = dense_values(runner_->model(), runner_->spec(), false);
  }

  double step(const data::Minibatch& m, float rate) {
    const Lookups lookups = runner_->dedupe(m);
    PulledRows rows;
    for (const Lookups::Table& table : lookups.tables) rows.bets.push_back(pull(table));
    rows.dense = FloatBuffer(dense_.size());
    std::copy_n(dense_.data(), dense_.size(), rows.dense.data());
    const StepResult result = runner_->train(m, lookups, std::move(rows), {});
    for (size_t i = 0; i < dense_.size(); ++i) dense_.data()[i] -= rate * result.dense.data()[i];
    for (const IndexedSlices& slices : result.gradients) apply(slices, rate);
    return result.loss_sum / static_cast<double>(m.examples);
  }
  ModelRunner& runner() { return *runner_; }

 private:
  std::vector<float>& row(TableId table, KeysView keys, size_t i) {
    const uint32_t dim = runner_->spec().tables[table].dim;
    auto [at, added] = rows_.try_emplace({table, to_string(keys, i)}, dim);
    if (added && dim > 1)
      for (size_t k = 0; k < dim; ++k)
        at->second[k] = static_cast<float>((hash_key(keys, i) >> k) % 101) / 1000 - 0.05f;
    return at->second;
  }
  FloatBuffer pull(const Lookups::Table& table) {
    const uint32_t dim = runner_->spec().tables[table.table].dim;
    FloatBuffer bet(table.unique.size() * dim);
    for (size_t i = 0; i < table.unique.size(); ++i)
      std::copy_n(row(table.table, table.unique, i).data(), dim, bet.data() + i * dim);
    return bet;
  }
  void apply(const IndexedSlices& slices, float rate) {
    for (size_t i = 0; i < slices.keys.size(); ++i) {
      std::vector<float>& values = row(slices.table, slices.keys, i);
      for (size_t k = 0; k < values.size(); ++k)
        values[k] -= rate * slices.values.data()[i * values.size() + k];
    }
  }

  std::unique_ptr<ModelRunner> runner_;
  FloatBuffer dense_;
  std::map<std::pair<TableId, std::string>, std::vector<float>> rows_;
};

struct Mixture {
  const char* model;
  bool categorical, numeric;
};

class Zoo : public testing::TestWithParam<Mixture> {};

TEST_P(Zoo, LearnsAPlantedTeacher) {
  const auto [model, categorical, numeric] = GetParam();
  Trainer trainer(toy::job_of(features(categorical, numeric), model));
  const data::Minibatch m = teacher(256, categorical, numeric, 1);
  const double before = trainer.step(m, 0.3f);
  double after = before;
  for (int i = 0; i < 200; ++i) after = trainer.step(m, 0.3f);
  EXPECT_GT(before, 0.6);
  EXPECT_LT(after, 0.25);
}

TEST_P(Zoo, ReachesEveryTableAndEveryParameter) {
  const auto [model, categorical, numeric] = GetParam();
  auto runner = ModelRunner::make(toy::job_of(features(categorical, numeric), model));
  toy::Server server;
  const StepResult result = toy::train(*runner, server, teacher(64, categorical, numeric, 2));
  EXPECT_TRUE(server.late_keys.empty());
  size_t embedding_tables = 0;
  for (const TableSpec& table : runner->spec().tables) embedding_tables += is_reserved(table.name) ? 0 : 1;
  EXPECT_EQ(result.gradients.size(), embedding_tables);
  EXPECT_EQ(runner->spec().has_embeddings(), categorical);
  const auto chunks = dense_chunks(runner->spec(), false);
  for (size_t c = 0; c < chunks.size(); ++c) {
    const float* const begin = result.dense.data() + c * kDenseChunk;
    EXPECT_TRUE(std::any_of(begin, begin + chunks[c].size, [](float x) { return x != 0; })) << chunks[c].key;
  }
}

TEST_P(Zoo, ScoresOneExample) {
  const auto [model, categorical, numeric] = GetParam();
  auto runner = ModelRunner::make(toy::job_of(features(categorical, numeric), model));
  toy::Server server;
  const StepResult result = toy::evaluate(*runner, server, teacher(1, categorical, numeric, 3));
  ASSERT_EQ(result.scores.size(), 1u);
  EXPECT_GT(result.scores[0], 0);
  EXPECT_LT(result.scores[0], 1);
}

INSTANTIATE_TEST_SUITE_P(Models, Zoo,
                         testing::Values(Mixture{"wide_deep", true, true}, Mixture{"wide_deep", false, true},
                                         Mixture{"wide_deep", true, false}, Mixture{"deepfm", true, true},
                                         Mixture{"deepfm", false, true}, Mixture{"deepfm", true, false},
                                         Mixture{"dlrm", true, true}, Mixture{"dlrm", false, true},
                                         Mixture{"dlrm", true, false}),
                         [](const auto& info) {
                           return std::string(info.param.model) +
                                  (info.param.categorical ? "_categorical" : "") +
                                  (info.param.numeric ? "_numeric" : "");
                         });

std::vector<std::string> tables_of(const job::Job& job) {
  std::vector<std::string> lines;
  const auto runner = ModelRunner::make(job);
  for (const TableSpec& t : runner->spec().tables)
    if (!is_reserved(t.name)) lines.push_back(fmt::format("{} {} {}", t.name, t.dim, t.initializer.name));
  return lines;
}

TEST(WideDeep, HasAWideAndADeepTableForEachFeature) {
  EXPECT_EQ(
      tables_of(toy::job_of(features(true, true), "wide_deep", {{"dim", 5}})),
      (std::vector<std::string>{"wide/a 1 zeros", "wide/tags 1 zeros", "a 5 uniform", "tags 5 uniform"}));
}

TEST(WideDeep, TakesDimsOfSingleTablesFromTheStorageSection) {
  job::Job job = toy::job_of(features(true, false), "wide_deep");
  job::TableOverride entry;
  entry.match = "tags";
  entry.dim = 32;
  job.storage.tables.push_back(entry);
  EXPECT_EQ(tables_of(job)[3], "tags 32 uniform");
  EXPECT_NO_THROW(Trainer(job).step(teacher(8, true, false, 1), 0.1f));
  job.storage.tables[0].match = "wide/tags";
  toy::expect_invalid({"wide_deep", "'wide/tags'", "dim 1"}, [&] { make_model(job); });
}

TEST(DeepFm, NeedsOneDim) {
  job::Job job = toy::job_of(features(true, false), "deepfm");
  job::TableOverride entry;
  entry.match = "tags";
  entry.dim = 32;
  job.storage.tables.push_back(entry);
  toy::expect_invalid({"deepfm", "dim 8", "'tags'", "32"}, [&] { make_model(job); });
  job.model.name = "dlrm";
  toy::expect_invalid({"dlrm", "dim 16", "'tags'", "32"}, [&] { make_model(job); });
}

TEST(Dlrm, MultipliesASingleFieldWithALearnedVector) {
  auto runner = ModelRunner::make(toy::job_of({toy::feature("a", KeyKind::kInt64)}, "dlrm"));
  toy::Server server;
  const StepResult result =
      toy::train(*runner, server, toy::minibatch_of({toy::ids_of<int64_t>({{1}, {2}})}, {0, 1}));
  EXPECT_EQ(result.gradients.size(), 1u);
  EXPECT_EQ(runner->spec().dense.at(0).name, "constant");
}

TEST(ZooSettings, AreChecked) {
  const auto make = [](const char* model, nlohmann::json params) {
    return [=] { make_model(toy::job_of(features(true, true), model, params)); };
  };
  toy::expect_invalid({"toy.toml:1", "hidden"}, make("wide_deep", {{"hidden", "64"}}));
  toy::expect_invalid({"hidden", "0 units"}, make("wide_deep", {{"hidden", {64, 0}}}));
  toy::expect_invalid({"bottom", "-1 units"}, make("dlrm", {{"bottom", {-1}}}));
  toy::expect_invalid({"dropout rate"}, make("deepfm", {{"dropout", 1.5}}));
  toy::expect_invalid({"dim"}, make("deepfm", {{"dim", 0}}));
  toy::expect_invalid({"'hiden'", "did you mean 'hidden'"}, make("wide_deep", {{"hiden", {64}}}));
  EXPECT_NO_THROW(make("wide_deep", {{"hidden", nlohmann::json::array()}})());
  toy::expect_invalid({"at least one feature"}, [] { make_model(toy::job_of({}, "wide_deep")); });
}

TEST(ZooSettings, DropoutChangesTrainingButNotEvaluation) {
  const data::Minibatch m = teacher(64, true, true, 4);
  const job::Job plain = toy::job_of(features(true, true), "wide_deep");
  const job::Job dropping = toy::job_of(features(true, true), "wide_deep", {{"dropout", 0.5}});
  auto a = ModelRunner::make(plain), b = ModelRunner::make(dropping);
  toy::Server server;
  EXPECT_EQ(toy::evaluate(*a, server, m).scores, toy::evaluate(*b, server, m).scores);
  EXPECT_NE(toy::train(*a, server, m).scores, toy::train(*b, server, m).scores);
  EXPECT_EQ(toy::train(*b, server, m).scores, toy::train(*b, server, m).scores);
}

}  // namespace
}  // namespace embers
