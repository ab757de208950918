// Sync jobs are elastic and deterministic: final weights do not depend on who computed them, nor where.
#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

Words sync(int grads_to_wait) {
  return set({"training.mode=sync", "training.grads_to_wait=" + std::to_string(grads_to_wait)});
}

TEST(SyncJob, WeightsDoNotDependOnWorkersShardsOrProcesses) {
  JobFolder folder;
  const Words job = sync(3);
  const std::string expected = folder.train(job);
  ASSERT_GT(expected.size(), 1000u);
  EXPECT_EQ(folder.report()["version"], 2 * 21);  // 63 minibatches an epoch, 3 a version
  EXPECT_EQ(folder.train(job + set({"training.workers=2"})), expected);
  EXPECT_EQ(folder.train(job + set({"training.workers=3", "storage.shards=4"})), expected);
  {
    Cluster tcp(folder, 1, 1, job);
    tcp.expect_success();
    EXPECT_EQ(folder.read("rows"), expected);
  }
  {
    Cluster tcp(folder, 4, 2, job);
    tcp.expect_success();
    EXPECT_EQ(folder.read("rows"), expected);
  }
  Cluster sockets(folder, 2, 3, job, true);
  sockets.expect_success();
  EXPECT_EQ(folder.read("rows"), expected);
}

TEST(SyncJob, OfHalvesEndsInTheSameWeightsWhereverItRuns) {
  JobFolder folder;
  const Words job =
      sync(3) + set({"storage.dtype=float16", "storage.rounding=stochastic", "storage.wire_dtype=bfloat16"});
  const std::string expected = folder.train(job);
  EXPECT_NE(folder.train(sync(3)), expected);
  EXPECT_EQ(folder.train(job + set({"training.workers=2", "storage.shards=3"})), expected);
  Cluster cluster(folder, 2, 2, job);
  cluster.expect_success();
  EXPECT_EQ(folder.read("rows"), expected);
}

TEST(SyncJob, AnotherSeedGivesOtherWeights) {
  JobFolder folder;
  EXPECT_NE(folder.train(sync(1)), folder.train(sync(1) + set({"job.seed=6"})));
}

TEST(SyncJob, DropoutAndBatchNormBuffersDoNotDependOnWorkersEither) {
  JobFolder folder;
  const Words dropout = sync(2) + set({"model.dropout=0.3"});
  EXPECT_EQ(folder.train(dropout), folder.train(dropout + set({"training.workers=3", "storage.shards=2"})));
  const Words norm = sync(2) + folder.probe("batchnorm");
  const std::string expected = folder.train(norm);
  EXPECT_NE(expected.find("_buffers\t"), std::string::npos);
  EXPECT_EQ(folder.train(norm + set({"training.workers=3"})), expected);
}

TEST(SyncJob, SeveralSmallMinibatchesEqualOneLarge) {
  JobFolder folder;
  const Words plain = set({"optimizer.name=sgd", "optimizer.learning_rate=0.1", "training.mode=sync"});
  const auto many =
      parse_dump(folder.train(plain + set({"training.grads_to_wait=4", "training.batch_size=8"})));
  const auto one =
      parse_dump(folder.train(plain + set({"training.grads_to_wait=1", "training.batch_size=32"})));
  ASSERT_EQ(many.size(), one.size());
  for (const auto& [key, row] : many) {
    const auto& other = one.at(key);
    ASSERT_EQ(row.size(), other.size());
    for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], other[i], 2e-5) << key;
  }
}

// With sgd of rate 1 the probe's rows are sums of gradients, of which each record gives one. Keys repeat
// within minibatches and across those of a version.
TEST(SyncJob, ReductionAddsUpRepeatedKeysOrWeighsMinibatchesByTheirExamples) {
  JobFolder folder;
  const Words count = sync(3) + folder.probe("count") +
                      set({"optimizer.name=sgd", "optimizer.learning_rate=1", "training.workers=2",
                           "storage.shards=2", "training.epochs=1"});
  const auto colors = [&](const std::string& reduction) {
    double sum = 0;
    for (const auto& [key, row] : parse_dump(folder.train(count + set({"training.reduction=" + reduction}))))
      if (key.starts_with("count/color\t")) sum += row.at(0);
    return sum;
  };
  EXPECT_EQ(colors("sum"), JobFolder::kRecords);
  // 1000 records are 62 minibatches of 16 and one of 8: 20 versions of 3 x 16, the mean of each 16, and one
  // of 16 + 16 + 8.
  EXPECT_NEAR(colors("mean"), 20 * 16 + (16 * 16 + 16 * 16 + 8 * 8) / 40.0, 1e-2);
}

TEST(SyncJob, AHungWorkerIsGivenUpOnAndLeavesNoTrace) {
  JobFolder folder;
  const Words job = sync(2) + folder.probe("slow") + set({"model.sleep_ms=20", "job.heartbeat_timeout=3"});
  const std::string expected = folder.train(job);
  Cluster cluster(folder, 2, 2, job);
  ASSERT_TRUE(cluster.is_training());
  cluster.workers[0]->stop();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(folder.read("rows"), expected);
  EXPECT_EQ(folder.report()["workers_lost"], 1);
}

TEST(SyncJob, KilledWorkersLeaveNoTrace) {
  JobFolder folder;
  const Words job = sync(3) + folder.probe("slow") + set({"model.sleep_ms=20"});
  const std::string expected = folder.train(job);
  Cluster cluster(folder, 2, 3, job);
  ASSERT_TRUE(folder.hold(*cluster.workers[2]));
  cluster.workers[0]->signal(SIGKILL);
  ASSERT_TRUE(wait_until([&] { return cluster.master->has_printed("lost the connection to worker"); }));
  cluster.workers[1]->signal(SIGKILL);
  folder.release();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(folder.read("rows"), expected);
  EXPECT_EQ(folder.report()["workers_lost"], 2);
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
}

TEST(SyncJob, StoppedAndResumedEndsInTheSameWeights) {
  JobFolder folder;
  const Words job = sync(3) + folder.probe("slow") + set({"model.sleep_ms=10"});
  const std::string expected = folder.train(job);
  const Words save = {"--output", folder.path("model")};
  const auto first = folder.start(Words{"train", folder.job()} + job + save);
  ASSERT_TRUE(wait_until([&] { return first->has_printed(" examples  "); }));
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait(), 0) << first->output();
  EXPECT_TRUE(first->has_printed("saved to")) << first->output();
  const std::string resumed =
      folder.train(job + Words{"--resume", folder.path("model")} + set({"training.workers=2"}));
  EXPECT_EQ(resumed, expected);
  EXPECT_LT(folder.report()["examples"], 2 * JobFolder::kRecords);
}

}  // namespace
}  // namespace embers::testing_support
