// Replicas: worker processes that are shards, too. No process of these jobs is a shard alone.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/integration/jobs.h"
#include "tests/support/servers.h"

namespace embers::testing_support {
namespace {

const Words kSync = set({"training.mode=sync", "training.grads_to_wait=2"});
const Words kOwner = {"--owner"};
constexpr auto kStays = "the shard of this process stays until the job has ended";

// A job of `count` replicas, which may wait for more workers.
class Replicas : public Cluster {
 public:
  Replicas(JobFolder& folder, int count, const Words& words = {}, int more_workers = 0)
      : Cluster(MasterAlone(), folder, count, count + more_workers, words) {
    for (int i = 0; i < count; ++i) add_worker(kOwner);
  }
};

Words count(const JobFolder& folder, int epochs) {
  return set({"optimizer.name=sgd", "optimizer.learning_rate=1", "training.reduction=sum",
              "training.epochs=" + std::to_string(epochs)}) +
         folder.probe("count");
}

// As slow as this, and on its way for a long time.
Words slow(const JobFolder& folder, const std::string& epochs = "1000") {
  return folder.probe("slow") + set({"model.sleep_ms=20", "training.epochs=" + epochs});
}

// Connections of this host's processes to the owner of a process, which listens at a Unix socket with its
// number in the name.
size_t connections_to(const Process& owner) {
  std::ifstream sockets("/proc/net/unix");
  const std::string name = "@embers-" + std::to_string(owner.pid()) + "-";
  size_t connected = 0;
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream words(line);
    std::string address, references, protocol, flags, type, state;
    words >> address >> references >> protocol >> flags >> type >> state;
    connected += state == "03" && line.find(name) != std::string::npos;
  }
  return connected;
}

TEST(Replicas, EndInTheSameWeightsAsShardProcesses) {
  JobFolder folder;
  const std::string expected = folder.train(kSync);
  for (const int replicas : {1, 2}) {
    Replicas job(folder, replicas, kSync);
    job.expect_success();
    EXPECT_EQ(folder.report()["shards"], replicas);
    EXPECT_EQ(folder.report()["workers_joined"], replicas);
    EXPECT_EQ(folder.read("rows"), expected) << replicas;
  }
  Cluster mixed(Cluster::MasterAlone(), folder, 2, 2, kSync);  // a replica, a worker and a shard
  mixed.add_worker(kOwner);
  mixed.add_worker();
  mixed.add_shard();
  mixed.expect_success();
  EXPECT_EQ(folder.read("rows"), expected);
}

TEST(Replicas, CountEachRecordOnceInAnAsyncJob) {
  JobFolder folder;
  Replicas job(folder, 2, count(folder, 3));
  job.expect_success();
  expect_each_record_counted_once(folder, 3);
}

// The master has two connections to each owner, and each worker of another process one.
TEST(Replicas, ReachTheirOwnRowsWithoutASocket) {
  JobFolder folder;
  {
    Replicas two(folder, 2, slow(folder));
    ASSERT_TRUE(two.is_training());
    for (const auto& replica : two.workers)
      EXPECT_TRUE(wait_until([&] { return connections_to(*replica) == 3; })) << connections_to(*replica);
    two.master->signal(SIGTERM);
    two.expect_success();
  }
  {
    Replicas alone(folder, 1, slow(folder));
    ASSERT_TRUE(alone.is_training());
    EXPECT_EQ(connections_to(*alone.workers[0]), 2u);
    alone.master->signal(SIGTERM);
    alone.expect_success();
  }
  Cluster apart(Cluster::MasterAlone(), folder, 1, 1, slow(folder));
  apart.add_shard();
  apart.add_worker();
  ASSERT_TRUE(apart.is_training());
  EXPECT_EQ(connections_to(*apart.shards[0]), 3u) << "as it is counted, so a socket would be seen";
}

TEST(Replicas, ADrainedOneKeepsItsRowsInTheJobToItsEnd) {
  JobFolder folder;
  Replicas job(folder, 2, count(folder, 3) + set({"model.sleep_ms=10"}));
  ASSERT_TRUE(folder.hold(*job.workers[0]));
  ASSERT_EQ(folder.run({"status", "--json", "--master", job.address}), 0) << folder.output();
  const nlohmann::json status = nlohmann::json::parse(folder.output());
  std::string drained;
  for (const auto& member : status["members"])
    if (member["name"].get<std::string>().starts_with("worker") && member["pid"] == job.workers[1]->pid())
      drained = member["name"];
  ASSERT_EQ(folder.run({"drain", drained, "--master", job.address}), 0) << folder.output();
  EXPECT_TRUE(wait_until([&] { return job.workers[1]->has_printed(kStays); })) << job.workers[1]->output();
  folder.release();
  job.expect_success();
  EXPECT_TRUE(job.master->has_printed(drained) && job.master->has_printed("left")) << job.master->output();
  expect_each_record_counted_once(folder, 3);
  EXPECT_EQ(folder.report()["stopped"], false);
}

// The next replicas are fewer.
TEST(Replicas, SigtermOfOneSavesTheJobWhichOthersGoOnWith) {
  JobFolder folder;
  const Words words = count(folder, 4) + set({"model.sleep_ms=10"});
  const Words save = {"--output", folder.path("model")};
  int before = 0;
  {
    Replicas job(folder, 2, words + save);
    ASSERT_TRUE(job.is_training());
    job.workers[1]->signal(SIGTERM);
    job.expect_success();
    EXPECT_EQ(folder.report()["stopped"], true);
    EXPECT_TRUE(job.workers[1]->has_printed("asking the master to save and end the job"))
        << job.workers[1]->output();
    EXPECT_TRUE(job.master->has_printed("saved to")) << job.master->output();
    before = folder.report()["examples"];
    EXPECT_LT(before, 4 * JobFolder::kRecords);
  }
  Replicas next(folder, 1, count(folder, 4) + Words{"--resume", folder.path("model")});
  next.expect_success();
  EXPECT_EQ(before + folder.report()["examples"].get<int>(), 4 * JobFolder::kRecords);
  double counted = 0;
  for (const auto& [key, row] : parse_dump(folder.read("rows")))
    if (key.starts_with("count/size")) counted += row.at(0);
  EXPECT_EQ(counted, 4 * JobFolder::kRecords);
}

TEST(Replicas, AKilledOneEndsTheJobNamingItsShard) {
  JobFolder folder;
  Replicas job(folder, 2, slow(folder));
  ASSERT_TRUE(job.is_training());
  job.workers[0]->signal(SIGKILL);
  EXPECT_EQ(job.master->wait(20), 1) << job.master->output();
  const std::string pid = "(pid " + std::to_string(job.workers[0]->pid());
  EXPECT_TRUE(job.master->has_printed("lost shard 0 " + pid) ||
              job.master->has_printed("lost shard 1 " + pid))
      << job.master->output();
  EXPECT_EQ(job.workers[1]->wait(20), 1) << job.workers[1]->output();
  EXPECT_TRUE(job.workers[1]->has_printed("lost shard")) << job.workers[1]->output();
}

TEST(Replicas, AKilledOneComesBackWhereThereIsAJournal) {
  JobFolder folder;
  const ServerProcess server = ServerProcess::memcached();
  const Words words = set({"storage.backend=memcached", "storage.servers=[\"" + server.address() + "\"]",
                           "storage.journal=" + folder.path("journal")});
  Replicas job(folder, 2, count(folder, 4) + words + set({"model.sleep_ms=5"}));
  ASSERT_TRUE(folder.hold(*job.workers[1]));
  job.workers[0]->signal(SIGKILL);
  job.workers[0]->wait();
  job.workers.erase(job.workers.begin());
  ASSERT_TRUE(wait_until([&] { return job.master->has_printed("for its next process"); }))
      << job.master->output();
  job.add_worker(kOwner);
  folder.release();
  job.expect_success();
  EXPECT_TRUE(job.master->has_printed("took the place of the lost one")) << job.master->output();
  expect_each_record_counted_once(folder, 4);
}

TEST(Replicas, AreRefusedWhereAllShardsAreThereAndTheJobGoesOn) {
  JobFolder folder;
  Cluster job(folder, 1, 1, slow(folder, "2"));
  ASSERT_TRUE(folder.hold(*job.workers[0]));
  Process& refused = job.add_worker(kOwner);
  EXPECT_EQ(refused.wait(), 2) << refused.output();
  folder.release();
  EXPECT_TRUE(refused.has_printed("this job has 1 shards and all have joined")) << refused.output();
  EXPECT_TRUE(refused.has_printed("joins without it (--owner")) << refused.output();
  job.workers.pop_back();
  job.expect_success();
}

TEST(Replicas, EvaluateASavedModel) {
  JobFolder folder;
  folder.train(Words{"--output", folder.path("model")});
  ASSERT_EQ(folder.run({"evaluate", folder.job(), "--model", folder.path("model"), "--report",
                        folder.path("expected.json")}),
            0)
      << folder.output();
  Replicas job(folder, 2, {"--task", "evaluate", "--model", folder.path("model")});
  job.expect_success();
  EXPECT_EQ(folder.report()["auc"], folder.report("expected.json")["auc"]);
}

TEST(Replicas, OptionsOfTheShardNeedOne) {
  JobFolder folder;
  for (const Words& option : {Words{"--listen", "127.0.0.1:0"}, Words{"--advertise", "here"}}) {
    EXPECT_EQ(folder.run(Words{"worker", "--master", "127.0.0.1:1"} + option), 2);
    EXPECT_NE(folder.output().find("--owner"), std::string::npos) << folder.output();
  }
}

}  // namespace
}  // namespace embers::testing_support
