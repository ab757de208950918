// Networks that fail between the processes of a job: bytes that vanish, connections that stall or stay half
// open. Minibatches are computed and counted once, whatever happens.
#include <filesystem>

#include "tests/integration/jobs.h"
#include "tests/support/network_faults.h"

namespace embers::testing_support {
namespace {

constexpr double kTimeout = 4;  // seconds: job.heartbeat_timeout
const Words kImpatient = set({"job.heartbeat_timeout=4"});

// A job with two workers, whose connections to the owners and to the master go through proxies.
class Network {
 public:
  Network(JobFolder& folder, const Words& job, int owners = 2, int workers = 2) : folder_(folder) {
    const std::string address = "unix:" + folder.path("master.sock");
    master = folder.start(Words{"master", folder.job(), "--listen", address, "--shards",
                                std::to_string(owners), "--workers", std::to_string(workers), "--report",
                                folder.path("out.json"), "--dump-rows", folder.path("rows")} +
                          job + kImpatient);
    EXPECT_TRUE(wait_until([&] { return master->has_printed("waiting for"); })) << master->output();
    for (int i = 0; i < owners; ++i) {
      of_owner_to_master.push_back(std::make_unique<FaultyProxy>(address));
      const std::string socket = folder.path("shard" + std::to_string(i));
      shards.push_back(folder.start(
          {"shard", "--master", of_owner_to_master.back()->address(), "--listen", "unix:" + socket}));
      EXPECT_TRUE(wait_until([&] { return shards.back()->has_printed("listening on"); }))
          << shards.back()->output();
      // The master has connected by now. Whoever comes later meets a proxy under the owner's address.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      std::filesystem::rename(socket, socket + ".real");
      to_owner.push_back(std::make_unique<FaultyProxy>("unix:" + socket + ".real", "unix:" + socket));
    }
    for (int i = 0; i < workers; ++i) {
      to_master.push_back(std::make_unique<FaultyProxy>(address));
      this->workers.push_back(folder.start({"worker", "--master", to_master.back()->address()}));
    }
  }

  bool is_training() {
    return wait_until([&] { return master->has_printed(" examples  "); });
  }
  std::string output() const {
    std::string text = "master:\n" + master->output();
    for (const auto& p : shards) text += "shard:\n" + p->output();
    for (const auto& p : workers) text += "worker:\n" + p->output();
    return text;
  }

  std::unique_ptr<Process> master;
  std::vector<std::unique_ptr<Process>> shards, workers;
  std::vector<std::unique_ptr<FaultyProxy>> to_owner, to_master, of_owner_to_master;

 private:
  JobFolder& folder_;
};

// About three seconds with two workers.
Words sync_job(const JobFolder& folder) {
  return folder.probe("slow") +
         set({"model.sleep_ms=40", "training.mode=sync", "training.grads_to_wait=2", "training.epochs=2"});
}
constexpr int kEpochs = 2;

class Partition : public testing::TestWithParam<Fault> {
 protected:
  // Undisturbed, in one process.
  std::string expected_rows() { return folder_.train(sync_job(folder_) + set({"model.sleep_ms=0"})); }
  void expect_same_end(Network& network, const std::string& expected) {
    EXPECT_EQ(network.master->wait(3 * kTimeout), 0) << network.output();
    EXPECT_EQ(folder_.report()["examples"], kEpochs * JobFolder::kRecords);
    EXPECT_EQ(folder_.read("rows"), expected);
  }

  JobFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Network, Partition, testing::ValuesIn(network_faults()), name_of);

TEST_P(Partition, BetweenWorkersAndAnOwnerIsHealedByAnotherConnection) {
  const std::string expected = expected_rows();
  Network network(folder_, sync_job(folder_));
  ASSERT_TRUE(network.is_training()) << network.output();
  GetParam().begin(*network.to_owner[1]);
  expect_same_end(network, expected);
  EXPECT_EQ(folder_.report()["workers_lost"], 0) << network.output();
  for (const auto& worker : network.workers) {
    EXPECT_EQ(worker->wait(10), 0);
    EXPECT_TRUE(worker->has_printed("connected to shard 1 again")) << worker->output();
  }
}

// Others compute meanwhile what the worker holds; it is neither lost nor given up on.
TEST_P(Partition, BetweenAWorkerAndTheMasterIsHealedByAnotherConnection) {
  const std::string expected = expected_rows();
  Network network(folder_, sync_job(folder_));
  ASSERT_TRUE(network.is_training()) << network.output();
  GetParam().begin(*network.to_master[0]);
  expect_same_end(network, expected);
  EXPECT_EQ(folder_.report()["workers_lost"], 0) << network.output();
  for (const auto& worker : network.workers) EXPECT_EQ(worker->wait(10), 0) << worker->output();
}

TEST_P(Partition, BetweenAnOwnerAndTheMasterIsHealedByAnotherConnection) {
  const std::string expected = expected_rows();
  Network network(folder_, sync_job(folder_) + set({"model.sleep_ms=100"}));
  ASSERT_TRUE(network.is_training()) << network.output();
  GetParam().begin(*network.of_owner_to_master[1]);
  expect_same_end(network, expected);
  for (const auto& shard : network.shards) EXPECT_EQ(shard->wait(10), 0) << shard->output();
  EXPECT_TRUE(
      network.shards[1]->has_printed("connected to " + network.of_owner_to_master[1]->address() + " again"))
      << network.output();
}

// The probe's rows count the records that held their key.
TEST_P(Partition, InAnAsyncJobAppliesEveryRecordOnce) {
  Network network(folder_, folder_.probe("count") +
                               set({"optimizer.name=sgd", "optimizer.learning_rate=1",
                                    "training.reduction=sum", "training.epochs=2", "model.sleep_ms=40"}));
  ASSERT_TRUE(network.is_training()) << network.output();
  GetParam().begin(*network.to_owner[1]);
  EXPECT_EQ(network.master->wait(3 * kTimeout), 0) << network.output();
  expect_each_record_counted_once(folder_, kEpochs);
}

// Workers reach the master, but an owner no longer. They say which one; a worker that can reach it goes on.
TEST(LastingPartition, OfWorkersFromAnOwnerIsReportedAtBothEnds) {
  JobFolder folder;
  const std::string expected = folder.train(sync_job(folder) + set({"model.sleep_ms=0"}));
  Network network(folder, sync_job(folder));
  ASSERT_TRUE(network.is_training()) << network.output();
  network.to_owner[1]->cut_silently(true);
  const std::string lost = "it reaches the master, but lost shard 1: ";
  ASSERT_TRUE(wait_until([&] { return network.master->has_printed(lost); })) << network.output();
  for (const auto& worker : network.workers) {
    EXPECT_EQ(worker->wait(20), 1) << worker->output();
    EXPECT_TRUE(worker->has_printed("lost shard 1: no sign of life for 2 s")) << worker->output();
    EXPECT_TRUE(worker->has_printed("cannot be reached again")) << worker->output();
  }
  EXPECT_TRUE(network.shards[1]->has_printed("cut the connection of worker")) << network.shards[1]->output();
  network.to_owner[1]->go_on();
  const auto late = folder.start({"worker", "--master", network.to_master[0]->address()});
  EXPECT_EQ(network.master->wait(), 0) << network.output();
  EXPECT_EQ(folder.report()["workers_lost"], 2);
  EXPECT_EQ(folder.report()["examples"], kEpochs * JobFolder::kRecords);
  EXPECT_EQ(folder.read("rows"), expected);
}

}  // namespace
}  // namespace embers::testing_support
