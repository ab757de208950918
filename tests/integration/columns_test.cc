// Jobs over feature columns, from the job file to the report.
#include <fmt/format.h>

#include <random>

#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

// The label is the parity of (age bucket, town) for most rows, which no column tells by itself, and for rows
// with tags what the heavier one says.
std::string rows(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < count; ++i) {
    const unsigned age = random() % 60, town = random() % 4;
    bool label = (age / 10 + town) % 2 == 0;
    std::string tags, weights;
    if (random() % 3 == 0) {
      label = random() % 2 == 0;
      tags = "yes|no";
      weights = label ? "3|0.5" : "0.5|3";
    }
    text += fmt::format("{},town{},{},{},{}\n", age, town, tags, weights, label ? 1 : 0);
  }
  return text;
}

class ColumnsJob : public testing::Test {
 protected:
  ColumnsJob() {
    folder.write("train.csv", rows(2000, 1));
    folder.write("test.csv", rows(400, 2));
    folder.write("towns.txt", "town0\ntown1\ntown2\ntown3\n");
    folder.write("job.toml", R"([job]
seed = 5
[model]
name = "dnn"
hidden = [16]
[data]
dir = ")" + folder.path("") + R"("
train = "train.csv"
test = "test.csv"
columns = [ { name = "age", type = "int" }, { name = "town" }, { name = "tags", separator = "|" },
  { name = "weight", type = "float", separator = "|" }, { name = "label", type = "label" } ]
[features]
age = { as = "bucketized", boundaries = [10, 20, 30, 40, 50] }
town = { as = "vocabulary", vocabulary_file = "towns.txt", vocabulary_size = 4, num_oov_buckets = 1 }
cross = { as = "crossed", keys = ["age", "town"], hash_bucket_size = 1000 }
tags = { as = "hash_bucket", hash_bucket_size = 50, weights = "weight" }
[columns]
age = { as = "indicator" }
town = { as = "indicator" }
cross = { as = "embedding", dimension = 4, max_norm = 5 }
tags = { as = "embedding", dimension = 4, combiner = "sqrtn", do_fusion = true }
[optimizer]
name = "adam"
learning_rate = 0.01
[training]
mode = "sync"
batch_size = 32
epochs = 6
)");
  }
  JobFolder folder;
};

TEST_F(ColumnsJob, LearnsFromCrossesAndWeights) {
  folder.train({});
  EXPECT_GT(folder.report()["auc"], 0.97) << folder.report();
  EXPECT_EQ(folder.report()["rows"], 24 + 2) << "24 crosses, 2 tags";
}

TEST_F(ColumnsJob, GivesTheSameRowsInSeveralProcesses) {
  const std::string alone = folder.train(set({"training.epochs=1"}));
  Cluster cluster(folder, 2, 2, set({"training.epochs=1"}));
  cluster.expect_success();
  EXPECT_EQ(folder.read("rows"), alone);
}

TEST_F(ColumnsJob, MistakesNameFileAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"features.age={ as = \"bucketized\", boundaries = [2, 1] }", "each larger than the one before"},
      {"features.cross.keys=[\"age\", \"twon\"]", "did you mean 'town'?"},
      {"features.town.vocabulary_file=none.txt", "cannot read vocabulary file"},
      {"features.tags.weights=wieght", "did you mean 'weight'?"},
      {"columns.cross.dimension=0", "'dimension' is 0"},
      {"model.name=deepfm", "reads no [columns]"},
  };
  for (const auto& [change, said] : cases) {
    EXPECT_EQ(folder.run(Words{"train", folder.job(), "--set", change}), 2) << change;
    EXPECT_NE(folder.output().find(said), std::string::npos) << folder.output();
  }
  folder.write("train.csv", "5,town1,yes|no,1,1\n");
  EXPECT_EQ(folder.run({"train", folder.job()}), 2);
  EXPECT_NE(folder.output().find("train.csv:1: column 'weight': 1 weights for 2 values"), std::string::npos)
      << folder.output();
}

TEST(CensusColumns, JobFileIsValid) {
  JobFolder folder;
  folder.write(
      "adult.data",
      "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
      "2174, 0, 40, United-States, <=50K\n");
  folder.write("adult.test", folder.read("adult.data"));
  EXPECT_EQ(folder.run({"train", path_of(EMBERS_CENSUS_COLUMNS_JOB), "--set", "data.dir=" + folder.path("")}),
            0)
      << folder.output();
}

}  // namespace
}  // namespace embers::testing_support
