// Bounded staleness, staleness in reports, and local steps of the dense model, in whole jobs.
#include <algorithm>
#include <filesystem>

#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

Words bounded(int bound) {
  return set({"training.mode=bounded", "training.staleness_bound=" + std::to_string(bound)});
}

Words slow(const JobFolder& folder) { return folder.probe("slow") + set({"model.sleep_ms=20"}); }

// Rows that count, for each table, the records that held their key: see the probe model.
Words counting(const JobFolder& folder) {
  return set({"optimizer.name=sgd", "optimizer.learning_rate=1"}) + folder.probe("count") +
         set({"model.sleep_ms=10"});
}

double counted_colors(const JobFolder& folder) {
  double sum = 0;
  for (const auto& [key, row] : parse_dump(folder.read("rows")))
    if (key.starts_with("count/color\t")) sum += row.at(0);
  return sum;
}

void train_census(JobFolder& folder, const Words& settings) {
  ASSERT_EQ(folder.run(Words{"train", path_of(EMBERS_CENSUS_JOB), "--report", folder.path("out.json")} +
                       set({"data.dir=" + census_dir()}) + set(settings)),
            0)
      << folder.output();
}

// The number of examples in the log's last line of progress.
uint64_t examples_so_far(const Process& master) {
  const std::string log = master.output(), before = "%  ";
  const size_t end = log.rfind(" examples  ");
  const size_t begin = end == std::string::npos ? end : log.rfind(before, end);
  return begin == std::string::npos ? 0 : std::stoull(log.substr(begin + before.size()));
}

size_t lines(const Process& master) {
  const std::string log = master.output();
  return static_cast<size_t>(std::count(log.begin(), log.end(), '\n'));
}

// Between the pull of a minibatch and its push every other worker applies at most 2 k + 1 minibatches (from k
// behind it to k ahead, and the one it is at), and the worker itself those that it had under way.
uint64_t greatest_staleness(uint64_t bound, uint64_t workers, uint64_t prefetch) {
  return (workers - 1) * (2 * bound + 1) + std::min(bound, prefetch);
}

TEST(Bounded, WhileAWorkerIsSuspendedTheOtherOneGetsNoFurtherAheadThanTheBound) {
  JobFolder folder;
  Cluster cluster(folder, 2, 2,
                  slow(folder) + bounded(2) +
                      set({"job.heartbeat_timeout=120", "training.batch_size=2", "training.epochs=1"}));
  ASSERT_TRUE(cluster.is_training());
  cluster.workers[0]->stop();
  uint64_t examples = 0;
  ASSERT_TRUE(wait_until([&] {
    examples = examples_so_far(*cluster.master);
    const size_t printed = lines(*cluster.master);
    return wait_until([&] { return lines(*cluster.master) >= printed + 2; }, 20) &&
           examples_so_far(*cluster.master) == examples;
  })) << "the other one never waited: "
      << cluster.master->output();
  EXPECT_LT(examples, JobFolder::kRecords);
  cluster.workers[0]->signal(SIGCONT);
  cluster.expect_success();
  const nlohmann::json report = folder.report();
  EXPECT_EQ(report["mode"], "bounded");
  EXPECT_EQ(report["examples"], JobFolder::kRecords);
  EXPECT_EQ(report["workers_lost"], 0);
  EXPECT_LE(report["max_staleness"], greatest_staleness(2, 2, 2)) << "of what the suspended one had computed";
}

TEST(Bounded, ABoundOfZeroIsLockStep) {
  JobFolder folder;
  folder.train(bounded(0) + slow(folder) + set({"training.workers=3", "model.sleep_ms=2"}));
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
  EXPECT_LE(folder.report()["max_staleness"], greatest_staleness(0, 3, 2));
}

TEST(Bounded, AKilledWorkerHoldsNobodyUpAndEveryRecordIsAppliedOnce) {
  JobFolder folder;
  Cluster cluster(folder, 2, 3, counting(folder) + bounded(1) + set({"training.epochs=4"}));
  ASSERT_TRUE(folder.hold(*cluster.workers[2]));
  cluster.workers[0]->signal(SIGKILL);
  folder.release();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(folder.report()["workers_lost"], 1);
  EXPECT_EQ(folder.report()["examples"], 4 * JobFolder::kRecords);
  EXPECT_EQ(counted_colors(folder), 4 * JobFolder::kRecords);
}

TEST(Bounded, CensusReachesTheAccuracyOfAsync) {
  SKIP_WITHOUT_CENSUS();
  JobFolder folder;
  train_census(folder, {"training.mode=bounded"});
  EXPECT_EQ(folder.report()["mode"], "bounded");
  EXPECT_GE(folder.report()["accuracy"], 0.870);
}

TEST(Staleness, IsReportedForEachEpochAndTheJob) {
  JobFolder folder;
  folder.train(slow(folder) + set({"training.workers=2", "model.sleep_ms=1"}));
  const nlohmann::json report = folder.report();
  uint64_t all = 0, greatest = 0;
  for (const auto& epoch : report["epochs"]) {
    uint64_t pushes = 0;
    for (const auto& [bucket, count] : epoch["staleness_histogram"].items()) pushes += count.get<uint64_t>();
    EXPECT_EQ(pushes, 63) << "one a minibatch to the only owner";
    EXPECT_LE(epoch["mean_staleness"], epoch["max_staleness"]);
    all += pushes;
    greatest = std::max(greatest, epoch["max_staleness"].get<uint64_t>());
  }
  EXPECT_EQ(all, report["minibatches"]);
  EXPECT_EQ(report["max_staleness"], greatest);
  EXPECT_NE(folder.output().find("epoch 2: staleness of gradients mean"), std::string::npos)
      << folder.output();
}

// A worker that prefetches is ahead of its own pushes. Divided by their staleness, its gradients count less.
TEST(Staleness, ModulatesTheLearningRateInOneProcessAndInSeveral) {
  JobFolder folder;
  const Words job = counting(folder) +
                    set({"training.prefetch=4", "training.epochs=1", "training.staleness_modulation=true"});
  const auto check = [&] {
    EXPECT_GE(folder.report()["max_staleness"], 2);
    EXPECT_LT(counted_colors(folder), JobFolder::kRecords);
    EXPECT_EQ(folder.report()["examples"], JobFolder::kRecords);
  };
  folder.train(job);
  check();
  Cluster cluster(folder, 1, 1, job);
  cluster.expect_success();
  check();
}

// Without prefetch, the worker is the only one that changes rows. The rows of colors, which every minibatch
// uses, are pulled with every third minibatch.
TEST(RowCache, SparesPullsAndIsReported) {
  JobFolder folder;
  folder.train(set({"training.prefetch=0"}));
  EXPECT_EQ(folder.report()["cache_hits"], 0);
  const auto keys = folder.report()["keys"].get<uint64_t>();
  EXPECT_GT(keys, 126 * 10);
  for (const char* mode : {"async", "bounded"}) {
    folder.train(set({"training.prefetch=0", "training.cache_rows=1000", "training.cache_staleness=2",
                      "training.mode=" + std::string(mode)}));
    const nlohmann::json report = folder.report();
    EXPECT_EQ(report["keys"], keys);
    EXPECT_GT(report["cache_hits"], keys / 3);
    EXPECT_LE(report["cache_hits"], keys * 2 / 3) << "a row is used thrice at most";
    EXPECT_EQ(report["examples"], 2 * JobFolder::kRecords);
    EXPECT_EQ(report["max_staleness"], 2) << "counted from the oldest row";
    uint64_t hits = 0;
    for (const auto& epoch : report["epochs"]) hits += epoch["cache_hits"].get<uint64_t>();
    EXPECT_EQ(report["cache_hits"], hits);
  }
}

TEST(RowCache, LosesNoGradient) {
  JobFolder folder;
  Cluster cluster(folder, 2, 2,
                  counting(folder) + set({"model.sleep_ms=1", "training.cache_rows=1000",
                                          "training.cache_staleness=8", "training.epochs=2"}));
  cluster.expect_success();
  EXPECT_GT(folder.report()["cache_hits"], 0);
  EXPECT_EQ(counted_colors(folder), 2 * JobFolder::kRecords);
}

TEST(RowCache, CensusReachesTheAccuracyOfAsync) {
  SKIP_WITHOUT_CENSUS();
  JobFolder folder;
  train_census(folder, {"training.cache_rows=1000", "training.cache_staleness=4"});
  EXPECT_GT(folder.report()["cache_hits"].get<double>(), 0.5 * folder.report()["keys"].get<double>());
  EXPECT_GE(folder.report()["accuracy"], 0.870);
}

TEST(Halves, CensusReachesTheAccuracyOfFloat32) {
  SKIP_WITHOUT_CENSUS();
  JobFolder folder;
  train_census(folder, {"storage.dtype=bfloat16", "storage.wire_dtype=bfloat16"});
  EXPECT_GE(folder.report()["accuracy"], 0.870);
}

// One worker: the time that its trainer waits and computes is all of its time.
TEST(StageSeconds, SayWhereTheTimeWent) {
  JobFolder folder;
  folder.train(slow(folder) + set({"training.epochs=1"}));
  const nlohmann::json report = folder.report(), stages = report["stage_seconds"];
  for (const char* stage : {"read", "dedupe", "pull", "wait", "train", "dense", "combine", "push"})
    EXPECT_GT(stages[stage], 0) << stage;
  EXPECT_GE(stages["dense"], 63 * 0.020);
  EXPECT_GE(stages["train"].get<double>(), stages["dense"].get<double>() + stages["combine"].get<double>());
  EXPECT_LE(stages["train"], report["seconds"]);
  EXPECT_EQ(report["epochs"][0]["stage_seconds"], stages);
}

// A single worker without prefetch is the only one that changes the model: its local copy follows every
// change.
TEST(GetModelSteps, OfASingleWorkerChangeNothing) {
  JobFolder folder;
  const Words job = set({"training.prefetch=0"});
  const std::string expected = folder.train(job);
  EXPECT_EQ(folder.train(job + set({"training.get_model_steps=5"})), expected);
  EXPECT_EQ(folder.train(job + set({"training.get_model_steps=5", "storage.shards=3"})), expected);
  const Words norm = job + folder.probe("batchnorm");
  EXPECT_EQ(folder.train(norm + set({"training.get_model_steps=5"})), folder.train(norm));
}

TEST(GetModelSteps, OfSeveralWorkersLoseNothingInAsyncAndBoundedMode) {
  JobFolder folder;
  for (const char* mode : {"async", "bounded"}) {
    folder.train(slow(folder) + set({"training.workers=2", "storage.shards=2", "training.get_model_steps=4",
                                     "model.sleep_ms=1", "training.mode=" + std::string(mode)}));
    EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
    EXPECT_EQ(folder.report()["released_minibatches"], 0);
  }
}

}  // namespace
}  // namespace embers::testing_support
