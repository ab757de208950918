// Shard processes that are killed and started again, with tables in memcached or Redis and a journal.
#include <filesystem>

#include "tests/integration/jobs.h"
#include "tests/support/faulty_proxy.h"
#include "tests/support/server_proxy.h"

namespace embers::testing_support {
namespace {

using Stop = ServerProxy::Stop;

const Words kSync = set({"training.mode=sync", "training.grads_to_wait=3"});

// A job of two shards and two workers whose servers stand behind a proxy, which stops them in a write-back of
// shard 1.
class Rejoin : public testing::TestWithParam<std::string> {
 protected:
  static ServerProcess start_server() {
    return GetParam() == "redis" ? ServerProcess::redis() : ServerProcess::memcached();
  }

  void start(Stop stop, const Words& words, uint64_t version = 10, const Words& one_process = {}) {
    proxy_.emplace(server_, stop, 1, version);
    job_ = words + set({"storage.backend=" + GetParam(), "storage.servers=" + proxy_->address(),
                        "storage.journal=" + folder_.path("journal")});
    cluster_.emplace(folder_, 2, 2, job_, false, one_process);
  }

  // The process that has this number.
  Process& shard(int number) {
    const std::string said = "shard " + std::to_string(number) + " of job";
    for (const auto& process : cluster_->shards)
      if (process->has_printed(said)) return *process;
    throw std::runtime_error("no process is " + said + ": " + cluster_->master->output());
  }

  bool kill_shard_1() {
    if (!proxy_->wait_until_stopped()) return false;
    shard(1).signal(SIGKILL);
    shard(1).wait();
    return true;
  }
  std::unique_ptr<Process> start_again(const Words& words = {}) {
    return folder_.start(Words{"shard", "--master", cluster_->address, "--listen", "127.0.0.1:0"} + words);
  }

  // The process that has both shards, in a write-back of shard 1.
  bool kill_both_shards() {
    if (!proxy_->wait_until_stopped()) return false;
    cluster_->shards[0]->signal(SIGKILL);
    cluster_->shards[0]->wait();
    proxy_->go_on();
    return wait_until([&] {
      return cluster_->master->has_printed("lost shard 0") && cluster_->master->has_printed("lost shard 1");
    });
  }
  void expect_success_of_both(const std::vector<Process*>& again) {
    EXPECT_EQ(cluster_->master->wait(), 0) << cluster_->master->output();
    for (Process* process : again) EXPECT_EQ(process->wait(), 0) << process->output();
    for (const auto& worker : cluster_->workers) EXPECT_EQ(worker->wait(), 0) << worker->output();
    for (const std::string shard : {"shard 0", "shard 1"})
      EXPECT_TRUE(wait_until([&] { return has_taken_the_place_of(shard); })) << cluster_->master->output();
  }
  bool has_taken_the_place_of(const std::string& shard) const {
    std::istringstream lines(cluster_->master->output());
    for (std::string line; std::getline(lines, line);)
      if (line.find(shard) != line.npos && line.find("took the place of the lost one") != line.npos)
        return true;
    return false;
  }

  void expect_success(Process& again) {
    EXPECT_EQ(cluster_->master->wait(), 0) << cluster_->master->output();
    EXPECT_EQ(again.wait(), 0) << again.output();
    EXPECT_EQ(shard(0).wait(), 0) << shard(0).output();
    for (const auto& worker : cluster_->workers) EXPECT_EQ(worker->wait(), 0) << worker->output();
    EXPECT_TRUE(cluster_->master->has_printed("took the place of the lost one"))
        << cluster_->master->output();
    EXPECT_EQ(folder_.report()["workers_lost"], 0);
  }

  Words count() const {
    return set({"optimizer.name=sgd", "optimizer.learning_rate=1", "training.reduction=sum",
                "training.epochs=3"}) +
           folder_.probe("count");
  }

  JobFolder folder_;
  const ServerProcess server_ = start_server();
  std::optional<ServerProxy> proxy_;
  Words job_;
  std::optional<Cluster> cluster_;
};
INSTANTIATE_TEST_SUITE_P(All, Rejoin, testing::Values("memcached", "redis"),
                         [](const auto& param) { return param.param; });

TEST_P(Rejoin, AnAsyncWriteBackThatWasCutOffIsFinishedAndNothingIsAppliedTwice) {
  start(Stop::kWriter, count());
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  proxy_->go_on();
  ASSERT_TRUE(wait_until([&] { return cluster_->master->has_printed("waiting 60 s for its next process"); }))
      << cluster_->master->output();
  const auto again = start_again();
  expect_success(*again);
  expect_each_record_counted_once(folder_, 3);
}

TEST_P(Rejoin, AShardThatIsKilledAnywhereInAnAsyncJobComesBackAsItWas) {
  start(Stop::kAll, count() + set({"training.mode=bounded"}));
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  proxy_->go_on();
  const auto again = start_again();
  expect_success(*again);
  expect_each_record_counted_once(folder_, 3);
}

TEST_P(Rejoin, ASyncCommitThatWasCutOffIsFinishedAndGivesTheSameWeights) {
  const std::string expected = folder_.train(kSync);
  start(Stop::kWriter, kSync);
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  proxy_->go_on();
  const auto again = start_again();
  expect_success(*again);
  EXPECT_EQ(folder_.read("rows"), expected);
}

TEST_P(Rejoin, AShardThatIsKilledAnywhereInASyncJobLeavesNoTrace) {
  const std::string expected = folder_.train(kSync);
  start(Stop::kAll, kSync);
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  proxy_->go_on();
  const auto again = start_again();
  expect_success(*again);
  EXPECT_EQ(folder_.read("rows"), expected);
}

TEST_P(Rejoin, AShardWithSomeColumnsOfEveryRowComesBackAsItWas) {
  const Words encoding = set({R"(storage.tables={"*"={partition="encoding"}})"});
  const std::string expected = folder_.train(kSync);
  start(Stop::kWriter, kSync + encoding);
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  proxy_->go_on();
  const auto again = start_again();
  expect_success(*again);
  EXPECT_EQ(folder_.read("rows"), expected);
}

TEST_P(Rejoin, AProcessOfTwoOwnersTakesThePlacesOfTwoThatWereKilledWithTheirs) {
  const std::string expected = folder_.train(kSync);
  start(Stop::kWriter, kSync, 10, {"--owners", "2"});
  ASSERT_TRUE(kill_both_shards()) << cluster_->master->output();
  const auto again = start_again({"--owners", "2"});
  expect_success_of_both({again.get()});
  EXPECT_EQ(folder_.read("rows"), expected);
}

TEST_P(Rejoin, TwoProcessesMayTakeThePlacesOfOneOfTwoOwners) {
  start(Stop::kAll, count(), 10, {"--owners", "2"});
  ASSERT_TRUE(kill_both_shards()) << cluster_->master->output();
  const auto again = start_again(), other = start_again();
  expect_success_of_both({again.get(), other.get()});
  expect_each_record_counted_once(folder_, 3);
}

TEST_P(Rejoin, WithoutAProcessInTimeTheJobEndsNamingTheShard) {
  start(Stop::kAll, count() + set({"storage.owner_timeout=1"}));
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  proxy_->go_on();
  EXPECT_EQ(cluster_->master->wait(), 1) << cluster_->master->output();
  for (const std::string text : {"lost shard 1 (pid", "storage.owner_timeout", "--resume"})
    EXPECT_TRUE(cluster_->master->has_printed(text)) << cluster_->master->output();
  EXPECT_EQ(shard(0).wait(), 1) << shard(0).output();
  for (const auto& worker : cluster_->workers) EXPECT_EQ(worker->wait(), 1) << worker->output();
}

TEST_P(Rejoin, AnOwnerTimeoutOfZeroEndsTheJobAtOnce) {
  start(Stop::kAll, count() + set({"storage.owner_timeout=0"}));
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  proxy_->go_on();
  EXPECT_EQ(cluster_->master->wait(), 1) << cluster_->master->output();
  EXPECT_TRUE(cluster_->master->has_printed("lost shard 1")) << cluster_->master->output();
  EXPECT_FALSE(cluster_->master->has_printed("waiting 0 s")) << cluster_->master->output();
}

TEST_P(Rejoin, AProcessWithoutTheJournalIsRefusedAndTheJobWaitsOn) {
  start(Stop::kWriter, count());
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  proxy_->go_on();
  ASSERT_TRUE(wait_until([&] { return cluster_->master->has_printed("waiting 60 s"); }));
  for (const char* file : {"keys", "values", "ledger"})
    std::filesystem::rename(folder_.path("journal/shard-1." + std::string(file)), folder_.path(file));
  const auto wrong = start_again();
  EXPECT_EQ(wrong->wait(), 2) << wrong->output();
  EXPECT_TRUE(wrong->has_printed("has no record of it")) << wrong->output();
  for (const char* file : {"keys", "values", "ledger"})
    std::filesystem::rename(folder_.path(file), folder_.path("journal/shard-1." + std::string(file)));
  const auto again = start_again();
  expect_success(*again);
  expect_each_record_counted_once(folder_, 3);
}

// Its connections are hidden behind a network that says nothing, as of a host that has lost its power.
TEST_P(Rejoin, AShardThatComesBeforeAnybodyHasNoticedTheLossWaitsAndTakesThePlace) {
  const Words job = count() + set({"storage.backend=" + GetParam(), "storage.servers=" + server_.address(),
                                   "storage.journal=" + folder_.path("journal"), "job.heartbeat_timeout=4",
                                   "model.sleep_ms=20"});
  cluster_.emplace(folder_, 2, 2, job, false, Words{"--owners", "1"});
  const std::string there = "127.0.0.1:" + std::to_string(free_port());
  FaultyProxy to_master(cluster_->address), to_shard(there);
  const auto lost = folder_.start(
      {"shard", "--master", to_master.address(), "--listen", there, "--advertise", to_shard.address()});
  ASSERT_TRUE(cluster_->is_training()) << cluster_->master->output() << lost->output();
  to_master.cut_silently(true);
  to_shard.cut_silently(true);
  lost->signal(SIGKILL);
  lost->wait();
  const auto again = start_again();
  EXPECT_TRUE(wait_until([&] { return cluster_->master->has_printed("another shard process (pid"); }))
      << cluster_->master->output();
  EXPECT_EQ(cluster_->master->wait(), 0) << cluster_->master->output();
  EXPECT_EQ(again->wait(), 0) << again->output();
  EXPECT_TRUE(cluster_->master->has_printed("took the place of the lost one")) << cluster_->master->output();
  expect_each_record_counted_once(folder_, 3);
}

// Its servers keep it from its recovery for longer than the others try to reach it, and than heartbeats may
// be missing.
TEST_P(Rejoin, AShardThatRecoversForLongerThanItsPeersTryToConnectIsNotLost) {
  proxy_.emplace(server_, Stop::kAllButGreetings, 1, 10);
  const Words patience = {"--connect-timeout", "3"};
  cluster_.emplace(folder_, 2, 0,
                   count() + patience +
                       set({"storage.backend=" + GetParam(), "storage.servers=" + proxy_->address(),
                            "storage.journal=" + folder_.path("journal"), "storage.server_timeout=60",
                            "job.heartbeat_timeout=5"}));
  for (int i = 0; i < 2; ++i) cluster_->add_worker(patience);
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  ASSERT_TRUE(wait_until([&] { return cluster_->master->has_printed("waiting 60 s for its next process"); }))
      << cluster_->master->output();
  const auto again = start_again();
  const std::string joined = "shard 1 (pid " + std::to_string(again->pid()) + " ";
  ASSERT_TRUE(wait_until([&] { return cluster_->master->has_printed(joined); }))
      << cluster_->master->output();
  const auto given_up = [&] {
    const auto& workers = cluster_->workers;
    return again->wait(0) != -1 || cluster_->master->has_printed("lost " + joined) ||
           std::any_of(workers.begin(), workers.end(), [](const auto& w) { return w->wait(0) != -1; });
  };
  EXPECT_FALSE(wait_until(given_up, 8)) << cluster_->master->output();
  EXPECT_FALSE(again->has_printed("shard 1 of job")) << "it has recovered, so this shows nothing";
  proxy_->go_on();
  expect_success(*again);
  expect_each_record_counted_once(folder_, 3);
}

// A process that hangs may wake up and write: its place is free only when it has ended.
TEST_P(Rejoin, AHungShardIsReplacedOnceItHasEnded) {
  start(Stop::kAll, count() + set({"job.heartbeat_timeout=5"}));
  ASSERT_TRUE(proxy_->wait_until_stopped()) << cluster_->master->output();
  shard(1).stop();
  proxy_->go_on();
  ASSERT_TRUE(wait_until([&] { return cluster_->master->has_printed("waiting 60 s"); }));
  const auto early = start_again();
  EXPECT_EQ(early->wait(), 2) << early->output();
  EXPECT_TRUE(early->has_printed("is still running (pid")) << early->output();
  shard(1).signal(SIGKILL);
  shard(1).wait();
  const auto again = start_again();
  EXPECT_EQ(cluster_->master->wait(), 0) << cluster_->master->output();
  EXPECT_EQ(again->wait(), 0) << again->output();
  for (const auto& worker : cluster_->workers) EXPECT_EQ(worker->wait(), 0) << worker->output();
  expect_each_record_counted_once(folder_, 3);
}

TEST_P(Rejoin, AnotherJobIsRefusedTheJournalNamingItsHolder) {
  const Words job = count() + set({"storage.backend=" + GetParam(), "storage.servers=" + server_.address(),
                                   "storage.journal=" + folder_.path("journal")});
  cluster_.emplace(folder_, 2, 0, job);  // it waits for a worker
  for (const auto& process : cluster_->shards)
    ASSERT_TRUE(wait_until([&] { return process->has_printed(" of job 'small'"); })) << process->output();
  EXPECT_EQ(folder_.run(Words{"train", folder_.job()} + job + set({"job.name=other"})), 2);
  for (const std::string text : {"journal' is in use by job 'small' (run ", "directory of its own"})
    EXPECT_NE(folder_.output().find(text), std::string::npos) << folder_.output();
  cluster_->add_worker();
  cluster_->expect_success();
  expect_each_record_counted_once(folder_, 3);
}

TEST_P(Rejoin, AServerThatForgotMeanwhileEndsTheJob) {
  start(Stop::kWriter, count());
  ASSERT_TRUE(kill_shard_1()) << cluster_->master->output();
  shard(0).stop();  // it would notice first
  proxy_->go_on();
  ASSERT_TRUE(wait_until([&] { return cluster_->master->has_printed("waiting 60 s"); }));
  const_cast<ServerProcess&>(server_).restart();
  const auto again = start_again();
  EXPECT_EQ(again->wait(), 1) << again->output();
  EXPECT_EQ(cluster_->master->wait(), 1) << cluster_->master->output();
  EXPECT_TRUE(cluster_->master->has_printed("restarted or flushed")) << cluster_->master->output();
  shard(0).signal(SIGKILL);
}

}  // namespace
}  // namespace embers::testing_support
