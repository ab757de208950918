// Processes that die, hang, come late or are asked to stop.
#include <cstdlib>
#include <filesystem>

#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

const Words kImpatient = set({"job.heartbeat_timeout=3"});

// A job whose minibatches take a while, so that there is time to interfere.
Words slow(const JobFolder& folder, int sleep_ms = 20) {
  return folder.probe("slow") + set({"model.sleep_ms=" + std::to_string(sleep_ms)});
}

TEST(Failure, KilledWorkerLosesNothingAndEveryRecordIsAppliedOnce) {
  JobFolder folder;
  // A probe: its rows count the records that held their key.
  const Words count = set({"optimizer.name=sgd", "optimizer.learning_rate=1", "training.reduction=sum",
                           "training.epochs=3"}) +
                      folder.probe("count") + set({"model.sleep_ms=20"});
  Cluster cluster(folder, 2, 2, count);
  ASSERT_TRUE(folder.hold(*cluster.workers[1]));
  cluster.workers[0]->signal(SIGKILL);
  folder.release();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(cluster.workers[1]->wait(), 0) << cluster.workers[1]->output();
  const nlohmann::json report = folder.report();
  EXPECT_EQ(report["examples"], 3 * JobFolder::kRecords);
  EXPECT_EQ(report["workers_lost"], 1);
  std::map<std::string, double> sums;
  for (const auto& [key, row] : parse_dump(folder.read("rows")))
    if (key.starts_with("count/")) sums[key.substr(0, key.find('\t'))] += row.at(0);
  EXPECT_EQ(sums.at("count/color"), 3 * JobFolder::kRecords);
  EXPECT_EQ(sums.at("count/size"), 3 * JobFolder::kRecords);
}

TEST(Failure, HungWorkerIsGivenUpOnFencedOffAndComesBackAsANewOne) {
  JobFolder folder;
  Cluster cluster(folder, 1, 2, slow(folder) + set({"training.epochs=12"}) + kImpatient);
  ASSERT_TRUE(cluster.is_training());
  cluster.workers[0]->stop();
  ASSERT_TRUE(wait_until([&] { return cluster.master->has_printed("lost worker"); }))
      << cluster.master->output();
  cluster.workers[0]->signal(SIGCONT);
  EXPECT_EQ(cluster.workers[0]->wait(), 0) << cluster.workers[0]->output();
  for (const char* const text : {"the master has given up on this", "joining again, as a new worker"})
    EXPECT_TRUE(cluster.workers[0]->has_printed(text)) << cluster.workers[0]->output();
  EXPECT_TRUE(cluster.master->has_printed("worker 2 (pid")) << cluster.master->output();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(folder.report()["examples"], 12 * JobFolder::kRecords);
}

TEST(Failure, DeadShardEndsEveryProcessAndIsNamed) {
  JobFolder folder;
  Cluster cluster(folder, 2, 2, slow(folder));
  ASSERT_TRUE(folder.hold(*cluster.workers[1]));
  cluster.shards[1]->signal(SIGKILL);
  folder.release();
  EXPECT_EQ(cluster.master->wait(20), 1) << cluster.master->output();
  EXPECT_TRUE(cluster.master->has_printed("lost shard")) << cluster.master->output();
  EXPECT_EQ(cluster.shards[0]->wait(20), 1);
  EXPECT_TRUE(cluster.shards[0]->has_printed("lost shard")) << cluster.shards[0]->output();
  for (const auto& worker : cluster.workers) {
    EXPECT_EQ(worker->wait(20), 1);
    EXPECT_TRUE(worker->has_printed("lost shard")) << worker->output();
  }
}

TEST(Failure, KilledShardLeavesNoFileBehind) {
  JobFolder folder;
  const std::string temporary = folder.path("tmp");
  std::filesystem::create_directory(temporary);
  setenv("TMPDIR", temporary.c_str(), 1);
  Cluster cluster(folder, 1, 1, slow(folder), true);
  unsetenv("TMPDIR");
  ASSERT_TRUE(cluster.is_training());
  cluster.shards[0]->signal(SIGKILL);
  EXPECT_EQ(cluster.master->wait(20), 1) << cluster.master->output();
  EXPECT_TRUE(std::filesystem::is_empty(temporary));
}

TEST(Failure, FullDiskIsNoBadInput) {
  JobFolder folder;
  EXPECT_EQ(folder.run({"train", folder.job(), "--report", "/dev/full"}), 1) << folder.output();
  EXPECT_NE(folder.output().find("'/dev/full': No space left"), std::string::npos) << folder.output();
}

TEST(Failure, HungShardEndsTheJob) {
  JobFolder folder;
  Cluster cluster(folder, 1, 1, slow(folder) + kImpatient);
  ASSERT_TRUE(cluster.is_training());
  cluster.shards[0]->stop();
  EXPECT_EQ(cluster.master->wait(20), 1) << cluster.master->output();
  const std::string lost = "lost shard 0 (pid " + std::to_string(cluster.shards[0]->pid()) + " on ";
  EXPECT_TRUE(cluster.master->has_printed(lost)) << cluster.master->output();
  EXPECT_EQ(cluster.workers[0]->wait(20), 1);
  EXPECT_TRUE(cluster.workers[0]->has_printed("lost shard 0")) << cluster.workers[0]->output();
}

TEST(Failure, DeadMasterEndsEveryProcessAndIsNamed) {
  JobFolder folder;
  Cluster cluster(folder, 1, 2, slow(folder));
  ASSERT_TRUE(folder.hold(*cluster.workers[1]));
  cluster.master->signal(SIGKILL);
  folder.release();
  for (auto* processes : {&cluster.shards, &cluster.workers})
    for (const auto& p : *processes) {
      EXPECT_EQ(p->wait(20), 1) << p->output();
      EXPECT_TRUE(p->has_printed("lost the master at " + cluster.address)) << p->output();
    }
}

TEST(Failure, HungMasterIsGivenUpOn) {
  JobFolder folder;
  Cluster cluster(folder, 1, 1, slow(folder) + kImpatient);
  ASSERT_TRUE(cluster.is_training());
  cluster.master->stop();
  EXPECT_EQ(cluster.shards[0]->wait(20), 1) << cluster.shards[0]->output();
  EXPECT_EQ(cluster.workers[0]->wait(20), 1) << cluster.workers[0]->output();
  EXPECT_TRUE(cluster.workers[0]->has_printed("lost the master")) << cluster.workers[0]->output();
}

TEST(Failure, ModelThatThrowsEndsTheJobWithItsWords) {
  JobFolder folder;
  const Words job = folder.probe("throws");
  EXPECT_EQ(folder.run(Words{"train", folder.job()} + job), 2);
  EXPECT_NE(folder.output().find("model 'throws': forward: no way forward"), std::string::npos)
      << folder.output();
  Cluster cluster(folder, 1, 2, job);
  EXPECT_EQ(cluster.master->wait(), 2);
  EXPECT_TRUE(cluster.master->has_printed("no way forward")) << cluster.master->output();
  for (const auto& worker : cluster.workers) EXPECT_NE(worker->wait(20), 0) << worker->output();
}

TEST(Failure, SuspendedJobOfOneProcessGoesOn) {
  JobFolder folder;
  const auto train = folder.start(Words{"train", folder.job(), "--report", folder.path("out.json")} +
                                  slow(folder) + set({"job.heartbeat_timeout=0.5"}));
  ASSERT_TRUE(wait_until([&] { return train->has_printed(" examples  "); }));
  train->stop();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  train->signal(SIGCONT);
  EXPECT_EQ(train->wait(), 0) << train->output();
  EXPECT_EQ(folder.report()["workers_lost"], 0);
}

TEST(Stop, SigtermToTheMasterSavesAndEndsAll) {
  JobFolder folder;
  Cluster cluster(folder, 2, 2, slow(folder) + Words{"--output", folder.path("model")});
  ASSERT_TRUE(folder.hold(*cluster.workers[1]));
  cluster.master->signal(SIGTERM);
  ASSERT_TRUE(wait_until([&] { return cluster.master->has_printed("SIGTERM"); })) << cluster.master->output();
  folder.release();
  cluster.expect_success();
  EXPECT_EQ(folder.report()["stopped"], true);
  const uint64_t examples = folder.report()["examples"];
  EXPECT_GT(examples, 0u);
  EXPECT_LT(examples, 2u * JobFolder::kRecords);
  // What was not trained is trained by the resumed job, and nothing twice.
  folder.train(slow(folder, 0) + Words{"--resume", folder.path("model")});
  EXPECT_EQ(folder.report()["examples"].get<uint64_t>() + examples, 2u * JobFolder::kRecords);
}

TEST(Stop, CtrlCToAllProcessesAtOnceSavesToo) {
  JobFolder folder;
  Cluster cluster(folder, 1, 2, slow(folder) + Words{"--output", folder.path("model")});
  ASSERT_TRUE(cluster.is_training());
  for (auto* processes : {&cluster.shards, &cluster.workers})
    for (const auto& p : *processes) p->signal(SIGINT);
  cluster.master->signal(SIGINT);
  cluster.expect_success();
  EXPECT_TRUE(cluster.master->has_printed("saved to"));
}

TEST(Stop, SecondSignalEndsAtOnce) {
  JobFolder folder;
  const auto train = folder.start(Words{"train", folder.job()} + slow(folder));
  ASSERT_TRUE(folder.hold(*train)) << "before a minibatch is at work, the first signal ends it as fast";
  train->signal(SIGTERM);
  ASSERT_TRUE(wait_until([&] { return train->has_printed("SIGTERM"); }));
  train->signal(SIGTERM);
  EXPECT_EQ(train->wait(), 128 + SIGTERM);
}

TEST(Elastic, WorkersJoinAndLeaveWhileTheJobRuns) {
  JobFolder folder;
  Cluster cluster(folder, 1, 1, slow(folder) + set({"training.epochs=4"}));
  ASSERT_TRUE(folder.hold(*cluster.workers[0]));
  cluster.add_worker();
  ASSERT_TRUE(wait_until([&] { return cluster.master->has_printed("worker 1 (pid"); }));
  cluster.workers[0]->signal(SIGTERM);
  folder.release();
  cluster.expect_success();
  EXPECT_TRUE(cluster.master->has_printed("worker 0 (pid"));
  EXPECT_EQ(folder.report()["examples"], 4 * JobFolder::kRecords);
  EXPECT_EQ(folder.report()["workers_lost"], 0);
  EXPECT_EQ(folder.report()["workers_joined"], 2);
}

TEST(Elastic, JobWithoutAnyWorkerGivesUpAfterItsTimeout) {
  JobFolder folder;
  Cluster cluster(folder, 1, 1, slow(folder) + set({"job.worker_timeout=1"}));
  ASSERT_TRUE(cluster.is_training());
  cluster.workers[0]->signal(SIGKILL);
  EXPECT_EQ(cluster.master->wait(20), 1);
  EXPECT_TRUE(cluster.master->has_printed("no worker is left")) << cluster.master->output();
}

}  // namespace
}  // namespace embers::testing_support
