// What users do with the embers command, right and wrong.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

TEST(Train, ReportsWhatTheIssueOfTheJobAsksFor) {
  JobFolder folder;
  folder.train(set({"training.workers=2", "storage.shards=2"}));
  const nlohmann::json report = folder.report();
  for (const char* key : {"examples", "seconds", "examples_per_second", "loss", "auc", "accuracy", "workers",
                          "shards", "version", "rows", "resident_bytes", "peak_memory_bytes"}) {
    EXPECT_TRUE(report.at(key).is_number()) << key;
  }
  EXPECT_EQ(report["examples"], 2 * JobFolder::kRecords);
  EXPECT_EQ(report["workers"], 2);
  EXPECT_EQ(report["shards"], 2);
  EXPECT_EQ(report["version"], 2 * 63);
  EXPECT_GT(report["auc"], 0.0);
  EXPECT_LT(report["auc"], 1.0);
  ASSERT_EQ(report["epochs"].size(), 2u);
  EXPECT_EQ(report["epochs"][0]["examples"], JobFolder::kRecords);
  EXPECT_EQ(report["epochs"][1]["epoch"], 2);
}

TEST(Train, RowsOfTheDumpAreSortedAndEachKeyOccursOnce) {
  JobFolder folder;
  const std::string dump = folder.train(set({"storage.shards=3"}));
  std::istringstream lines(dump);
  std::set<std::string> keys;
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    keys.insert(line.substr(0, line.find('\t', line.find('\t') + 1)));
  EXPECT_EQ(keys.size(), count);
  EXPECT_TRUE(keys.contains("color\tcolor0"));
  EXPECT_TRUE(keys.contains("tags\tt9"));
  EXPECT_EQ(
      folder.report()["rows"].get<size_t>(),
      count - std::count_if(keys.begin(), keys.end(), [](const auto& k) { return k.starts_with("_dense"); }));
}

TEST(Train, ModelWithoutEmbeddingsNeedsNoShardProcess) {
  JobFolder folder;
  const Words job = folder.probe("dense_only");
  Cluster cluster(folder, 0, 2, job);
  cluster.expect_success();
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
  EXPECT_EQ(folder.report()["rows"], 0);
}

TEST(Evaluate, SavedModelScoresAsItDidInTraining) {
  JobFolder folder;
  folder.train({"--output", folder.path("model")});
  const nlohmann::json trained = folder.report();
  ASSERT_EQ(folder.run({"evaluate", folder.job(), "--model", folder.path("model"), "--report",
                        folder.path("e.json")}),
            0)
      << folder.output();
  EXPECT_EQ(folder.report("e.json")["auc"], trained["auc"]);
  EXPECT_EQ(folder.report("e.json")["accuracy"], trained["accuracy"]);
  EXPECT_EQ(folder.report("e.json")["rows"], trained["rows"]);

  ASSERT_EQ(
      folder.run({"predict", folder.job(), "--model", folder.path("model"), "--out", folder.path("p.csv")}),
      0)
      << folder.output();
  std::istringstream lines(folder.read("p.csv"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "record,score,label");
  for (int i = 0; i < JobFolder::kTestRecords; ++i) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(line.substr(0, line.find(',')), std::to_string(i));
  }
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(Evaluate, UnseenKeysAreReadAsTheirInitialValuesAndNotCreated) {
  JobFolder folder;
  folder.train({"--output", folder.path("model")});
  folder.write("other.csv", "never,1,t1,1.5,yes\nseen,2,t2,2.5,no\n");
  ASSERT_EQ(folder.run({"evaluate", folder.job(), "--model", folder.path("model"), "--data",
                        folder.path("other.csv"), "--report", folder.path("e.json")}),
            0)
      << folder.output();
  EXPECT_EQ(folder.report("e.json")["rows"], folder.report()["rows"]);
}

TEST(Resume, FinishedJobGoesOnWithMoreEpochs) {
  JobFolder folder;
  const Words output = {"--output", folder.path("model")};
  folder.train(output);
  folder.train(Words{"--resume", folder.path("model")} + set({"training.epochs=3", "storage.shards=3"}));
  const nlohmann::json report = folder.report();
  EXPECT_EQ(report["examples"], JobFolder::kRecords);
  EXPECT_EQ(report["epochs"][0]["epoch"], 3);
}

TEST(Data, BadRowsAreErrorsOrSkippedAndCounted) {
  JobFolder folder;
  folder.write("train.csv", folder.read("train.csv") + "red,1\n");
  EXPECT_EQ(folder.run({"train", folder.job()}), 2);
  EXPECT_NE(folder.output().find("train.csv:1001"), std::string::npos) << folder.output();
  folder.train(set({"data.on_bad_row=skip"}));
  EXPECT_EQ(folder.report()["skipped_rows"], 2);
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
}

TEST(Synth, SameSeedGivesTheSameBytesAndTrains) {
  JobFolder folder;
  ASSERT_EQ(folder.run({"synth", "criteo", "--rows", "500", "--seed", "3", "--out", folder.path("a")}), 0);
  ASSERT_EQ(folder.run({"synth", "criteo", "--rows", "500", "--seed", "3", "--out", folder.path("b")}), 0);
  EXPECT_EQ(folder.read("a/train.txt"), folder.read("b/train.txt"));
  folder.write("criteo.toml", "[model]\nname=\"dlrm\"\n[data]\ndir=\"" + folder.path("a") +
                                  "\"\ntrain=\"train.txt\"\ntest=\"test.txt\"\nformat=\"criteo\"\n");
  EXPECT_EQ(folder.run({"train", folder.path("criteo.toml")}), 0) << folder.output();
}

TEST(Census, ReachesTheAccuracyOfAPlainModel) {
  SKIP_WITHOUT_CENSUS();
  JobFolder folder;
  ASSERT_EQ(folder.run({"train", path_of(EMBERS_CENSUS_JOB), "--set", "data.dir=" + census_dir(), "--report",
                        folder.path("out.json")}),
            0)
      << folder.output();
  EXPECT_EQ(folder.report()["mode"], "async");
  EXPECT_EQ(folder.report()["workers"], 2);
  EXPECT_EQ(folder.report()["examples"], 5 * 32561);
  EXPECT_GE(folder.report()["accuracy"], 0.870);
  EXPECT_GE(folder.report()["auc"], 0.925);
}

// --- bad input: exit status 2 and a message that names the place ---------------------------------

struct BadInput {
  std::string name;
  Words words;  // after "train JOB"
  std::vector<std::string> said;
};

void PrintTo(const BadInput& input, std::ostream* out) { *out << input.name; }

class BadInputTest : public testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, EndsWithStatusTwoAndNamesThePlace) {
  JobFolder folder;
  folder.write("broken.toml", "[job]\nname = \"x\n");
  folder.write("unknown.toml", folder.read("job.toml") + "bach_size = 3\n");
  folder.write("optimizer.toml", folder.read("job.toml") + "[storage.tables.color]\noptimizer=\"adan\"\n");
  folder.write("short.csv", "red,1,t1,2.5,yes\nred,1\n");
  folder.write("number.csv", "red,many,t1,2.5,yes\n");
  folder.write("label.csv", "red,1,t1,2.5,yes\n\nred,1,t1,2.5,perhaps\n");
  Words words = GetParam().words;
  const std::string job = words.empty() || words[0].ends_with(".toml") ? words.at(0) : "job.toml";
  if (words[0] == job) words.erase(words.begin());
  EXPECT_EQ(folder.run(Words{"train", folder.path(job)} + words), 2) << folder.output();
  for (const std::string& text : GetParam().said)
    EXPECT_NE(folder.output().find(text), std::string::npos) << "no '" << text << "' in: " << folder.output();
}

INSTANTIATE_TEST_SUITE_P(
    Train, BadInputTest,
    testing::Values(
        BadInput{"MalformedJob", {"broken.toml"}, {"broken.toml:2"}},
        BadInput{
            "UnknownKey", {"unknown.toml"}, {"unknown.toml:18", "bach_size", "did you mean 'batch_size'"}},
        BadInput{"MissingJob", {"nowhere.toml"}, {"nowhere.toml"}},
        BadInput{"MissingData", set({"data.train=gone.csv"}), {"gone.csv"}},
        BadInput{"ShortRow", set({"data.train=short.csv"}), {"short.csv:2", "5"}},
        BadInput{"NoNumber", set({"data.train=number.csv"}), {"number.csv:1", "many", "size"}},
        BadInput{"ForeignLabel", set({"data.train=label.csv"}), {"label.csv:3", "perhaps"}},
        BadInput{"UnknownModel",
                 set({"model.name=wide_dep"}),
                 {"--set model.name=wide_dep: ", "did you mean 'wide_deep'"}},
        BadInput{"UnknownModelKey",
                 set({"model.hiden=[3]"}),
                 {"--set model.hiden=[3]: ", "did you mean 'hidden'"}},
        BadInput{"MissingLibrary",
                 set({"model.library=libnone.so"}),
                 {"--set model.library=libnone.so: ", "libnone.so", "does not exist"}},
        BadInput{"LibraryWithoutFactory",
                 set({"model.library=" + path_of(EMBERS_LIBRARY_WITHOUT_MODEL)}),
                 {"--set model.library=" + path_of(EMBERS_LIBRARY_WITHOUT_MODEL) + ": ",
                  "EMBERS_MODEL(YourModel)"}},
        BadInput{"UnknownOptimizer",
                 set({"optimizer.name=adan"}),
                 {"--set optimizer.name=adan: ", "did you mean 'adam'"}},
        BadInput{
            "UnknownOptimizerOfATable", {"optimizer.toml"}, {"optimizer.toml:19: ", "did you mean 'adam'"}},
        BadInput{"TableThatTheModelLacks",
                 set({"storage.tables.colour.dim=4"}),
                 {"--set storage.tables.colour.dim=4: ", "did you mean 'color'"}},
        BadInput{"UnknownParameter",
                 set({"optimizer.beta1=0.5"}),
                 {"job.toml:13: ", "beta1", "did you mean 'beta_1'"}},
        BadInput{"UnknownOverride", set({"training.epoch=3"}), {"training.epoch", "did you mean 'epochs'"}},
        BadInput{"NoCheckpoint", {"--resume", "nowhere"}, {"nowhere"}}),
    [](const auto& info) { return info.param.name; });

TEST(BadInput, UnreachableMasterIsGivenUpOnAndNamed) {
  JobFolder folder;
  EXPECT_EQ(folder.run({"worker", "--master", "127.0.0.1:1", "--connect-timeout", "0.5"}), 2);
  EXPECT_NE(folder.output().find("127.0.0.1:1"), std::string::npos) << folder.output();
  EXPECT_EQ(folder.run({"shard", "--master", "nonsense"}), 2);
  EXPECT_NE(folder.output().find("HOST:PORT"), std::string::npos) << folder.output();
}

TEST(BadInput, OfADoctorIsSaidBeforeTheMasterIsLookedFor) {
  JobFolder folder;
  const std::vector<std::pair<Words, std::string>> wrong{
      {{"--port-range", "9-1"}, "--port-range 9-1"},
      {{"--listen", "[::1:80"}, "address '[::1:80'"},
      {{"--advertise", "gate:http"}, "--advertise gate:http"}};
  for (const auto& [words, said] : wrong) {
    EXPECT_EQ(folder.run(Words{"doctor", "--master", "127.0.0.1:1", "--connect-timeout", "20"} + words), 2);
    EXPECT_NE(folder.output().find("error: " + said), std::string::npos) << folder.output();
  }
}

TEST(BadInput, PortInUseIsNamed) {
  JobFolder folder;
  Cluster cluster(folder, 1, 0);  // listens until its one worker has come
  EXPECT_EQ(folder.run({"master", folder.job(), "--listen", cluster.address}), 2);
  EXPECT_NE(folder.output().find(cluster.address), std::string::npos) << folder.output();
  cluster.add_worker();
  cluster.expect_success();
}

TEST(BadInput, WorkerWithAnotherDimIsRefusedByNameOfWhatDiffers) {
  JobFolder folder;
  Cluster cluster(folder, 1, 0);  // waits for the one worker that the job file names
  Process& other = cluster.add_worker(set({"model.dim=16"}));
  EXPECT_EQ(other.wait(), 2) << other.output();
  EXPECT_TRUE(other.has_printed("dim 8, keys bytes at the master")) << other.output();
  EXPECT_TRUE(other.has_printed("dim 16, keys bytes at the worker")) << other.output();
  cluster.add_worker();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
}

TEST(BadInput, WorkersBadDataEndsTheWholeJobWithStatusTwo) {
  JobFolder folder;
  folder.write("label.csv", folder.read("train.csv") + "red,1,t1,2.5,perhaps\n");
  Cluster cluster(folder, 1, 2, set({"data.train=label.csv"}));
  EXPECT_EQ(cluster.master->wait(), 2) << cluster.master->output();
  EXPECT_TRUE(cluster.master->has_printed("label.csv:1001")) << cluster.master->output();
  EXPECT_EQ(cluster.shards[0]->wait(), 1);
}

TEST(BadInput, WorkerWithOtherDataOrSettingsIsRefused) {
  JobFolder folder, other;
  Cluster cluster(folder, 1, 0);
  Process& batch = cluster.add_worker(set({"training.batch_size=8"}));
  EXPECT_EQ(batch.wait(), 2);
  EXPECT_TRUE(
      batch.has_printed("training.batch_size = 16 at the master, training.batch_size = 8 at the worker"))
      << batch.output();
  other.write("train.csv", other.read("train.csv").substr(other.read("train.csv").find('\n') + 1));
  Process& data = cluster.add_worker(set({"data.dir=" + other.path("")}));
  EXPECT_EQ(data.wait(), 2);
  EXPECT_TRUE(data.has_printed("training file train.csv with 999 records")) << data.output();
  cluster.add_worker(set({"training.prefetch=5"}));
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
}

TEST(BadInput, WorkerWithAnotherVocabularyFileIsRefused) {
  JobFolder folder, other;
  std::string entries;
  for (int i = 0; i < 7; ++i) entries += "color" + std::to_string(i) + "\n";
  for (JobFolder* f : {&folder, &other})
    f->write("job.toml", folder.read("job.toml") +
                             "[features]\ncolor = { as = \"vocabulary\", "
                             "vocabulary_file = \"colors.txt\" }\n");
  folder.write("colors.txt", entries);
  other.write("colors.txt", entries.substr(0, entries.size() - 2) + "8\n");
  Cluster cluster(folder, 1, 0);
  Process& worker = cluster.add_worker(set({"data.dir=" + other.path("")}));
  EXPECT_EQ(worker.wait(), 2) << worker.output();
  EXPECT_TRUE(worker.has_printed("vocabulary of feature 'color' with 7 entries and digest"))
      << worker.output();
  cluster.add_worker();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
}

TEST(BadInput, OutputOfAnotherRunningJobIsRefused) {
  JobFolder folder;
  const Words output = {"--output", folder.path("model")};
  Cluster cluster(folder, 1, 0, output);
  EXPECT_EQ(folder.run(Words{"train", folder.job()} + output), 2);
  EXPECT_NE(folder.output().find("another job is writing to"), std::string::npos) << folder.output();
  cluster.add_worker();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
}

TEST(BadInput, MiddleOfAnEpochGoesOnOnlyWithTheSameOrder) {
  JobFolder folder;
  const Words job = folder.probe("slow") + set({"model.sleep_ms=20"});
  const auto first = folder.start(Words{"train", folder.job(), "--output", folder.path("model")} + job);
  ASSERT_TRUE(folder.hold(*first));
  first->signal(SIGTERM);
  ASSERT_TRUE(wait_until([&] { return first->has_printed("SIGTERM"); })) << first->output();
  folder.release();
  EXPECT_EQ(first->wait(), 0) << first->output();
  const Words resume = Words{"train", folder.job(), "--resume", folder.path("model")} + job;
  EXPECT_EQ(folder.run(resume + set({"data.shuffle=false"})), 2);
  EXPECT_NE(folder.output().find("data.shuffle = true; this job has data.shuffle = false"), std::string::npos)
      << folder.output();
  EXPECT_EQ(folder.run(resume), 0) << folder.output();
}

TEST(BadInput, EmptyWordsAndPipesAreRefused) {
  JobFolder folder;
  EXPECT_EQ(folder.run({"evaluate", folder.job(), "--model", ""}), 2);
  EXPECT_EQ(folder.run({"train", folder.job(), "--output", ""}), 2);
  EXPECT_EQ(folder.run({"worker", "--master", "127.0.0.1:1", "--connect-timeout", "nan"}), 2);
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(folder.run(Words{"check", folder.job()} + set({"data.train=pipe"})), 2);
  EXPECT_NE(folder.output().find("not a regular file"), std::string::npos) << folder.output();
}

TEST(Predict, StoppedWritesNothingAndSaysSo) {
  JobFolder folder;
  const Words job = folder.probe("slow");
  ASSERT_EQ(folder.run(Words{"train", folder.job(), "--output", folder.path("model")} + job +
                       set({"model.sleep_ms=0"})),
            0)
      << folder.output();
  const auto predict = folder.start(
      Words{"predict", folder.job(), "--model", folder.path("model"), "--out", folder.path("p.csv")} + job +
      set({"model.sleep_ms=400"}));
  ASSERT_TRUE(wait_until([&] { return predict->has_printed("joined"); }));
  predict->signal(SIGTERM);
  EXPECT_EQ(predict->wait(), 1) << predict->output();
  EXPECT_TRUE(predict->has_printed("SIGTERM: not all records were evaluated")) << predict->output();
  EXPECT_FALSE(std::filesystem::exists(folder.path("p.csv")));
}

TEST(Check, ValidatesWithoutTraining) {
  JobFolder folder;
  EXPECT_EQ(folder.run({"check", folder.job()}), 0) << folder.output();
  EXPECT_NE(folder.output().find("table 'color': dim 8"), std::string::npos) << folder.output();
  EXPECT_EQ(folder.run({"check", folder.job(), "--set", "optimizer.name=none"}), 2);
}

TEST(Owners, AreWhatTheCommandLineMayCallShards) {
  JobFolder folder;
  const std::string address = "unix:" + folder.path("master.sock");
  const auto master = folder.start(
      {"master", folder.job(), "--listen", address, "--owners", "2", "--report", folder.path("out.json")});
  const auto owner = folder.start({"owner", "--master", address, "--owners", "2"});
  const auto worker = folder.start({"worker", "--master", address});
  EXPECT_EQ(master->wait(), 0) << master->output();
  EXPECT_EQ(owner->wait(), 0) << owner->output();
  EXPECT_EQ(worker->wait(), 0) << worker->output();
  EXPECT_EQ(folder.report()["shards"], 2);
}

TEST(Help, IsEverywhere) {
  JobFolder folder;
  for (const Words& words :
       {Words{"help"}, {"--help"}, {"help", "master"}, {"worker", "--help"}, {"synth", "criteo", "--help"}})
    EXPECT_EQ(folder.run(words), 0) << folder.output();
  EXPECT_EQ(folder.run({"trian"}), 2);
  EXPECT_EQ(folder.run({}), 2);
}

}  // namespace
}  // namespace embers::testing_support
