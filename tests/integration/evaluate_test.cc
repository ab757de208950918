// A saved model on test data: in one process and in several, the same numbers and the same file.
#include <sys/stat.h>

#include <filesystem>
#include <regex>

#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

class SavedModel : public testing::Test {
 protected:
  void train(const Words& words = {}) { folder.train(Words{"--output", folder.path("model")} + words); }
  Words model() const { return {"--model", folder.path("model")}; }
  Words predict(const std::string& out) const {
    return Words{"--task", "predict", "--out", folder.path(out)} + model();
  }
  // The CSV as one process writes it.
  std::string predicted(const Words& words = {}) {
    EXPECT_EQ(folder.run(Words{"predict", folder.job(), "--out", folder.path("one.csv")} + model() + words),
              0)
        << folder.output();
    return folder.read("one.csv");
  }
  nlohmann::json evaluated(const Words& words = {}) {
    EXPECT_EQ(
        folder.run(Words{"evaluate", folder.job(), "--report", folder.path("one.json")} + model() + words), 0)
        << folder.output();
    return folder.report("one.json");
  }
  static void expect_same(const nlohmann::json& a, const nlohmann::json& b) {
    for (const char* key : {"auc", "accuracy", "test_loss", "examples", "rows", "version", "skipped_rows"})
      EXPECT_EQ(a.at(key), b.at(key)) << key;
  }
  // Half-written files, besides those that were there before.
  size_t hidden_files() const {
    size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path("")))
      found += entry.path().filename().string().starts_with(".");
    return found;
  }

  JobFolder folder;
};

TEST_F(SavedModel, OverProcessesGivesTheSameNumbersAndTheSameFile) {
  train();
  const std::string csv = predicted();
  const nlohmann::json report = evaluated();
  {
    Cluster cluster(folder, 2, 2, predict("p.csv"));
    cluster.expect_success();
  }
  EXPECT_EQ(folder.read("p.csv"), csv);
  expect_same(folder.report(), report);
  EXPECT_EQ(folder.report()["shards"], 2);
  EXPECT_EQ(folder.report()["workers"], 2);
  {
    Cluster cluster(folder, 3, 1, Words{"--task", "evaluate"} + model(), true);
    cluster.expect_success();
  }
  expect_same(folder.report(), report);
}

// As embers has always written it.
TEST_F(SavedModel, FileHasALineForEachRecordInOrderWithItsLabel) {
  train();
  std::istringstream lines(predicted()), data(folder.read("test.csv"));
  EXPECT_NE(folder.output().find("scores saved to " + folder.path("one.csv")), std::string::npos)
      << folder.output();
  std::string line, record;
  std::getline(lines, line);
  EXPECT_EQ(line, "record,score,label");
  for (int i = 0; i < JobFolder::kTestRecords; ++i) {
    ASSERT_TRUE(std::getline(lines, line) && std::getline(data, record));
    const std::string number = "(0|1|0\\.[0-9]+|[0-9.]+e-[0-9]+)",
                      label = record.ends_with(",yes") ? "1" : "0";
    EXPECT_TRUE(std::regex_match(line, std::regex(std::to_string(i) + "," + number + "," + label))) << line;
  }
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(SavedModel, NeedsNeitherTrainingDataNorServersNorSlots) {
  train();
  const nlohmann::json trained = folder.report();
  const std::string csv = predicted();
  std::filesystem::remove(folder.path("train.csv"));
  const Words elsewhere = set({"storage.backend=redis", "storage.servers=[\"127.0.0.1:1\"]",
                               "storage.journal=" + folder.path("journal")});
  EXPECT_EQ(predicted(elsewhere), csv);
  Cluster cluster(folder, 1, 2, predict("p.csv") + elsewhere);
  cluster.expect_success();
  EXPECT_EQ(folder.read("p.csv"), csv);
  EXPECT_FALSE(std::filesystem::exists(folder.path("journal")));
  EXPECT_EQ(folder.report()["rows"], trained["rows"]);
  EXPECT_LT(folder.report()["resident_bytes"], trained["resident_bytes"]);
}

TEST_F(SavedModel, FilesOfTheCommandLineReachWorkers) {
  train();
  folder.write("other.csv", "never,1,t1,1.5,yes\nseen,2,t2,2.5,no\n");
  const Words data = {"--data", folder.path("other.csv")};
  const std::string csv = predicted(data);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  Cluster cluster(folder, 1, 2, predict("p.csv") + data);
  cluster.expect_success();
  EXPECT_EQ(folder.read("p.csv"), csv);
}

TEST_F(SavedModel, ModelWithoutEmbeddingsNeedsNoShardProcess) {
  const Words job = folder.probe("dense_only");
  train(job);
  const std::string csv = predicted(job);
  Cluster cluster(folder, 0, 2, predict("p.csv") + job);
  cluster.expect_success();
  EXPECT_EQ(folder.read("p.csv"), csv);
}

TEST_F(SavedModel, KilledWorkerLosesNothing) {
  const Words slow = folder.probe("slow") + set({"training.batch_size=4"});
  train(slow + set({"model.sleep_ms=0", "training.epochs=1"}));
  const std::string csv = predicted(slow + set({"model.sleep_ms=0"}));
  Cluster cluster(folder, 2, 2, predict("p.csv") + slow + set({"model.sleep_ms=100"}));
  ASSERT_TRUE(wait_until([&] { return cluster.master->has_printed("evaluating"); }))
      << cluster.master->output();
  cluster.workers[0]->signal(SIGKILL);
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(cluster.workers[1]->wait(), 0) << cluster.workers[1]->output();
  EXPECT_EQ(folder.report()["workers_lost"], 1);
  EXPECT_EQ(folder.report()["examples"], JobFolder::kTestRecords);
  EXPECT_EQ(folder.read("p.csv"), csv);
}

TEST_F(SavedModel, StoppedOrFailedPredictionLeavesTheFileThatWasThere) {
  const Words slow = folder.probe("slow");
  train(slow + set({"model.sleep_ms=0", "training.epochs=1"}));
  folder.write("p.csv", "before");
  {
    Cluster cluster(folder, 1, 1, predict("p.csv") + slow + set({"model.sleep_ms=200"}));
    ASSERT_TRUE(wait_until([&] { return cluster.master->has_printed("evaluating"); }))
        << cluster.master->output();
    EXPECT_EQ(hidden_files(), 1) << "it is written under another name";
    cluster.master->signal(SIGTERM);
    EXPECT_EQ(cluster.master->wait(), 1) << cluster.master->output();
    EXPECT_TRUE(cluster.master->has_printed("SIGTERM: not all records were evaluated"))
        << cluster.master->output();
  }
  {
    Cluster cluster(folder, 1, 1, predict("p.csv") + slow + set({"model.sleep_ms=200"}));
    ASSERT_TRUE(wait_until([&] { return cluster.master->has_printed("evaluating"); }));
    cluster.shards[0]->signal(SIGKILL);
    EXPECT_EQ(cluster.master->wait(), 1) << cluster.master->output();
    EXPECT_TRUE(cluster.master->has_printed("lost shard 0")) << cluster.master->output();
  }
  EXPECT_EQ(folder.read("p.csv"), "before");
  EXPECT_EQ(hidden_files(), 0);
}

TEST_F(SavedModel, FullDiskEndsTheJobAndIsNamed) {
  train();
  EXPECT_EQ(folder.run(Words{"predict", folder.job(), "--out", "/dev/full"} + model()), 1) << folder.output();
  EXPECT_NE(folder.output().find("'/dev/full': No space left"), std::string::npos) << folder.output();
}

TEST_F(SavedModel, WritesToAPipeAsItGoes) {
  train();
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  const auto predict = folder.start(Words{"predict", folder.job(), "--out", folder.path("pipe")} + model());
  const std::string csv = folder.read("pipe");
  EXPECT_EQ(predict->wait(), 0) << predict->output();
  EXPECT_EQ(csv, predicted());
}

TEST_F(SavedModel, OptionsOfAnotherTaskAreRefused) {
  const struct {
    Words words;
    std::string said;
  } cases[] = {
      {{"--task", "prophesy"}, "--task"},
      {{"--task", "evaluate"}, "--task evaluate needs --model"},
      {Words{"--task", "predict"} + model(), "--task predict needs --out"},
      {Words{"--task", "evaluate", "--out", "p.csv"} + model(), "--out means nothing with --task evaluate"},
      {predict("p.csv") + Words{"--output", "m"}, "--output means nothing with --task predict"},
      {predict("p.csv") + Words{"--dump-rows", "r"}, "--dump-rows means nothing with --task predict"},
      {predict("p.csv") + Words{"--resume", "m"}, "--resume means nothing with --task predict"},
      {model(), "--model means nothing with --task train"},
      {{"--data", "x.csv"}, "--data means nothing with --task train"},
      {predict("nowhere/p.csv"), "nowhere/p.csv"},
      {predict("p.csv"), "there is no checkpoint at"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(folder.run(Words{"master", folder.job(), "--listen", "127.0.0.1:0"} + c.words), 2)
        << folder.output();
    EXPECT_NE(folder.output().find(c.said), std::string::npos) << c.said << " in: " << folder.output();
  }
}

TEST_F(SavedModel, CensusOverProcessesIsWhatOneProcessSays) {
  SKIP_WITHOUT_CENSUS();
  const Words census = {"--set", "data.dir=" + census_dir()};
  const std::string job = path_of(EMBERS_CENSUS_JOB);
  ASSERT_EQ(
      folder.run(Words{"train", job, "--output", folder.path("model"), "--report", folder.path("t.json")} +
                 census),
      0)
      << folder.output();
  folder.write("job.toml", read_file(job));
  const std::string csv = predicted(census);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 16282);
  Cluster cluster(folder, 2, 2, predict("p.csv") + census);
  cluster.expect_success();
  EXPECT_EQ(folder.read("p.csv"), csv);
  for (const char* key : {"auc", "accuracy", "test_loss"})
    EXPECT_EQ(folder.report()[key], folder.report("t.json")[key]) << key << ": as training ended with";
}

}  // namespace
}  // namespace embers::testing_support
