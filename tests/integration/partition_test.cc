// Networks that fail between the processes of a job: bytes that vanish, connections that stall or stay half
// open. Minibatches are computed and counted once, whatever happens.
//
// All faults are tried in one job: each befalls the connections of another owner, or of another worker.
#include <fmt/format.h>

#include "tests/integration/jobs.h"
#include "tests/support/network_faults.h"
#include "tests/support/servers.h"

namespace embers::testing_support {
namespace {

constexpr double kTimeout = 4;  // seconds: job.heartbeat_timeout
const Words kImpatient = set({"job.heartbeat_timeout=4"});
const std::vector<Fault> kFaults = network_faults();
const int kAll = static_cast<int>(kFaults.size());

// A job whose processes reach each other through proxies.
class Network {
 public:
  Network(JobFolder& folder, const Words& job, int owners, int workers) : folder_(folder) {
    address_ = "unix:" + folder.path("master.sock");
    master = folder.start(Words{"master", folder.job(), "--listen", address_, "--shards",
                                std::to_string(owners), "--workers", std::to_string(workers), "--report",
                                folder.path("out.json"), "--dump-rows", folder.path("rows")} +
                          job + kImpatient);
    EXPECT_TRUE(wait_until([&] { return master->has_printed("waiting for"); })) << master->output();
    for (int i = 0; i < owners; ++i) add_shard();
    for (int i = 0; i < workers; ++i) add_worker();
  }

  // The first connections to an owner are the master's.
  void spare_connections_of_the_master() {
    for (const auto& proxy : to_owner) proxy->spare_first(kOfMaster);
  }
  void spare_connections_of_workers() {
    for (const auto& proxy : to_owner) proxy->spare_all_but_first(kOfMaster);
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
  static constexpr size_t kOfMaster = 2;  // for rows, and for orders

  // Others are told the proxy's address. Each joins before the next one starts, and so gets the number that
  // it has here.
  void add_shard() {
    of_owner_to_master.push_back(std::make_unique<FaultyProxy>(address_));
    const std::string listens = "127.0.0.1:" + std::to_string(free_port());
    to_owner.push_back(std::make_unique<FaultyProxy>(listens));
    shards.push_back(folder_.start({"shard", "--master", of_owner_to_master.back()->address(), "--listen",
                                    listens, "--advertise", to_owner.back()->address()}));
    EXPECT_TRUE(wait_until([&] { return shards.back()->has_printed("listening on"); }))
        << shards.back()->output();
  }
  void add_worker() {
    to_master.push_back(std::make_unique<FaultyProxy>(address_));
    workers.push_back(folder_.start({"worker", "--master", to_master.back()->address()}));
  }

  JobFolder& folder_;
  std::string address_;
};

using Proxies = std::vector<std::unique_ptr<FaultyProxy>>;
// The first fault befalls the first one, and so on.
void begin_all_faults(const Proxies& proxies) {
  for (int i = 0; i < kAll; ++i) kFaults[i].begin(*proxies.at(i));
}

// About three seconds with two workers.
Words sync_job(const JobFolder& folder) {
  return folder.probe("slow") +
         set({"model.sleep_ms=40", "training.mode=sync", "training.grads_to_wait=2", "training.epochs=2"});
}
constexpr int kEpochs = 2;

class Partition : public testing::Test {
 protected:
  // Undisturbed, in one process.
  std::string expected_rows() { return folder_.train(sync_job(folder_) + set({"model.sleep_ms=0"})); }
  void expect_same_end(Network& network, const std::string& expected) {
    EXPECT_EQ(network.master->wait(), 0) << network.output();
    EXPECT_EQ(folder_.report()["examples"], kEpochs * JobFolder::kRecords);
    EXPECT_EQ(folder_.read("rows"), expected);
  }
  static void expect_another_connection(const Process& of, const Proxies& proxies, int which) {
    const std::string address = proxies[which]->address();
    EXPECT_TRUE(of.has_printed(address + " again")) << kFaults[which].name << "\n" << of.output();
  }
  static void expect_other_connections(const Process& of, const Proxies& proxies) {
    for (int i = 0; i < kAll; ++i) expect_another_connection(of, proxies, i);
  }

  JobFolder folder_;
};

TEST_F(Partition, BetweenWorkersAndOwnersIsHealedByOtherConnections) {
  const std::string expected = expected_rows();
  Network network(folder_, sync_job(folder_), kAll, 2);
  ASSERT_TRUE(network.is_training()) << network.output();
  network.spare_connections_of_the_master();
  begin_all_faults(network.to_owner);
  expect_same_end(network, expected);
  EXPECT_EQ(folder_.report()["workers_lost"], 0) << network.output();
  for (const auto& worker : network.workers) {
    EXPECT_EQ(worker->wait(60), 0);
    expect_other_connections(*worker, network.to_owner);
  }
  EXPECT_FALSE(network.master->has_printed(" again")) << network.master->output();
}

// Commits wait until they arrive, and are done once.
TEST_F(Partition, BetweenTheMasterAndOwnersIsHealedByOtherConnections) {
  const std::string expected = expected_rows();
  Network network(folder_, sync_job(folder_), kAll, 2);
  ASSERT_TRUE(network.is_training()) << network.output();
  network.spare_connections_of_workers();
  begin_all_faults(network.to_owner);
  expect_same_end(network, expected);
  EXPECT_EQ(folder_.report()["workers_lost"], 0) << network.output();
  expect_other_connections(*network.master, network.to_owner);
  for (const auto& shard : network.shards) EXPECT_EQ(shard->wait(60), 0) << shard->output();
  for (const auto& worker : network.workers) {
    EXPECT_EQ(worker->wait(60), 0);
    EXPECT_FALSE(worker->has_printed(" again")) << worker->output();
  }
}

// One more worker computes meanwhile what the others hold; they are neither lost nor given up on.
TEST_F(Partition, BetweenWorkersAndTheMasterIsHealedByOtherConnections) {
  const std::string expected = expected_rows();
  Network network(folder_, sync_job(folder_), 2, kAll + 1);
  ASSERT_TRUE(network.is_training()) << network.output();
  begin_all_faults(network.to_master);
  expect_same_end(network, expected);
  EXPECT_EQ(folder_.report()["workers_lost"], 0) << network.output();
  for (const auto& worker : network.workers) EXPECT_EQ(worker->wait(60), 0) << worker->output();
  for (int i = 0; i < kAll; ++i) expect_another_connection(*network.workers[i], network.to_master, i);
}

TEST_F(Partition, BetweenOwnersAndTheMasterIsHealedByOtherConnections) {
  const std::string expected = expected_rows();
  Network network(folder_, sync_job(folder_) + set({"model.sleep_ms=100"}), kAll, 2);
  ASSERT_TRUE(network.is_training()) << network.output();
  begin_all_faults(network.of_owner_to_master);
  expect_same_end(network, expected);
  for (int i = 0; i < kAll; ++i) {
    EXPECT_EQ(network.shards[i]->wait(60), 0) << network.shards[i]->output();
    expect_another_connection(*network.shards[i], network.of_owner_to_master, i);
  }
}

// The probe's rows count the records that held their key.
Words async_job(const JobFolder& folder) {
  return folder.probe("count") + set({"optimizer.name=sgd", "optimizer.learning_rate=1",
                                      "training.reduction=sum", "training.epochs=2", "model.sleep_ms=40"});
}

TEST_F(Partition, OfOwnersFromEverybodyInAnAsyncJobAppliesEveryRecordOnce) {
  Network network(folder_, async_job(folder_), kAll, 2);
  ASSERT_TRUE(network.is_training()) << network.output();
  begin_all_faults(network.to_owner);
  EXPECT_EQ(network.master->wait(), 0) << network.output();
  expect_each_record_counted_once(folder_, kEpochs);
  expect_other_connections(*network.master, network.to_owner);
  for (const auto& worker : network.workers) expect_other_connections(*worker, network.to_owner);
}

// A worker is lost while the master cannot fence it at an owner. The epoch is not over before that is done.
TEST_F(Partition, OfAnOwnerFromTheMasterHoldsUpTheEpochInWhichAWorkerIsLost) {
  Network network(folder_, async_job(folder_), 2, 2);
  ASSERT_TRUE(folder_.hold(*network.workers[1])) << network.output();
  network.workers[0]->stop();
  // What it holds is leased to others when it has been silent for twice as long.
  std::this_thread::sleep_for(std::chrono::duration<double>(kTimeout / 4));
  network.spare_connections_of_workers();
  network.to_owner[1]->cut_silently(true);
  folder_.release();
  ASSERT_TRUE(wait_until([&] { return network.master->has_printed("lost worker"); }, 1.5 * kTimeout))
      << network.output();
  EXPECT_FALSE(network.master->has_printed("epoch 1:")) << network.output();
  network.to_owner[1]->go_on();
  EXPECT_EQ(network.master->wait(), 0) << network.output();
  expect_each_record_counted_once(folder_, kEpochs);
}

// Workers reach the owner, but the master no longer: the job ends, and everybody says which owner it was.
TEST(LastingPartition, OfTheMasterFromAnOwnerEndsTheJobAndNamesTheOwner) {
  JobFolder folder;
  Network network(folder, sync_job(folder), 2, 2);
  ASSERT_TRUE(network.is_training()) << network.output();
  network.spare_connections_of_workers();
  network.to_owner[1]->cut_silently(true);
  EXPECT_EQ(network.master->wait(), 1) << network.output();
  for (const std::string& words :
       {std::string("lost shard 1 (pid "), std::string("): no sign of life for 2 s, and shard 1 "),
        " at " + network.to_owner[1]->address() + " cannot be reached again from "})
    EXPECT_TRUE(network.master->has_printed(words)) << words << "\n" << network.master->output();
  for (const auto* processes : {&network.shards, &network.workers})
    for (const auto& p : *processes) {
      EXPECT_EQ(p->wait(60), 1) << p->output();
      EXPECT_TRUE(p->has_printed("lost shard 1 (pid ")) << p->output();
    }
}

// Workers reach the master, but an owner no longer. They say which one; a worker that can reach it goes on.
TEST(LastingPartition, OfWorkersFromAnOwnerIsReportedAtBothEnds) {
  JobFolder folder;
  const std::string expected = folder.train(sync_job(folder) + set({"model.sleep_ms=0"}));
  Network network(folder, sync_job(folder), 2, 2);
  ASSERT_TRUE(network.is_training()) << network.output();
  network.spare_connections_of_the_master();
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
