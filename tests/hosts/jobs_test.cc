// Whole jobs whose processes are on two hosts.
#include <functional>
#include <ostream>
#include <thread>

#include "tests/hosts/two_hosts_job.h"

namespace embers::testing_support {
namespace {

const Words kSync = set({"training.mode=sync", "training.grads_to_wait=3"});
constexpr int kEpochs = 6;
const Words kDeepFm = set({"model.name=deepfm"});

class Jobs : public JobOnTwoHosts {
 protected:
  // A job whose rows count the records that held their key, in minibatches that take a while.
  Words count(double heartbeat_timeout) const {
    return set({"optimizer.name=sgd", "optimizer.learning_rate=1", "training.reduction=sum",
                "training.epochs=" + std::to_string(kEpochs), "model.sleep_ms=40",
                "job.heartbeat_timeout=" + std::to_string(heartbeat_timeout)}) +
           folder_.probe("count") + Words{"--dump-rows", folder_.path("rows")};
  }
  void expect_each_record_counted_once() {
    testing_support::expect_each_record_counted_once(folder_, kEpochs);
  }
};

TEST_F(Jobs, SyncHasTheBitsOfOneHostWhereverItsProcessesAre) {
  const std::string expected = folder_.train(kSync + kDeepFm);
  for (const std::string where : {"ms|ww", "ww|ms", "mw|sw", "mss|sww"}) {
    members_.clear();
    start(where, folder_.job(), kSync + kDeepFm + Words{"--dump-rows", folder_.path("rows")});
    expect_success();
    EXPECT_EQ(folder_.read("rows"), expected) << where;
  }
}

TEST_F(Jobs, CensusHasTheCountsOfOneHost) {
  SKIP_WITHOUT_CENSUS();
  const std::string job = path_of(EMBERS_CENSUS_JOB);
  const Words words = set({"data.dir=" + census_dir(), "training.epochs=2", "training.mode=sync"});
  ASSERT_EQ(folder_.run(Words{"train", job, "--report", folder_.path("one.json")} + words), 0)
      << folder_.output();
  const nlohmann::json one = folder_.report("one.json");
  for (const std::string where : {"ms|ww", "mw|sw"}) {
    members_.clear();
    start(where, job, words);
    expect_success();
    const nlohmann::json two = folder_.report();
    for (const char* what : {"examples", "rows", "version", "test_loss", "auc", "accuracy"})
      EXPECT_EQ(two[what], one[what]) << where << ' ' << what;
    EXPECT_EQ(two["workers_lost"], 0);
  }
}

// --- the network goes away -----------------------------------------------------------------------

// Shorter than one heartbeat timeout of the jobs below, longer than the other.
constexpr auto kAway = std::chrono::seconds(20);

// What happens to the network, and how it ends.
struct Outage {
  const char* name;
  std::function<void(LocalHosts&)> begin, end;
};
void PrintTo(const Outage& outage, std::ostream* out) { *out << outage.name; }

class Outages : public Jobs, public testing::WithParamInterface<Outage> {
 protected:
  void go_away() {
    ASSERT_TRUE(is_training()) << master_->output();
    GetParam().begin(hosts_);
    std::this_thread::sleep_for(kAway);
    GetParam().end(hosts_);
  }
};
const Outage kCut{"Cut", [](LocalHosts& h) { h.cut(); }, [](LocalHosts& h) { h.set_up(); }};
const Outage kStall{"Stall", [](LocalHosts& h) { h.stall(); }, [](LocalHosts& h) { h.set_up(); }};
const Outage kWorkersCard{"WorkersCardUnplugged", [](LocalHosts& h) { h.unplug(1); },
                          [](LocalHosts& h) { h.plug(1); }};
const Outage kMastersCard{"MastersCardUnplugged", [](LocalHosts& h) { h.unplug(0); },
                          [](LocalHosts& h) { h.plug(0); }};
std::string name_of(const testing::TestParamInfo<Outage>& outage) { return outage.param.name; }

using ShortOutages = Outages;
INSTANTIATE_TEST_SUITE_P(All, ShortOutages, testing::Values(kCut, kStall, kWorkersCard, kMastersCard),
                         name_of);
using LongOutages = Outages;
INSTANTIATE_TEST_SUITE_P(All, LongOutages, testing::Values(kCut, kWorkersCard), name_of);

TEST_P(ShortOutages, LoseNobody) {
  start("ms|sww", folder_.job(), count(30));
  go_away();
  expect_success();
  EXPECT_EQ(folder_.report()["workers_lost"], 0) << master_->output();
  expect_each_record_counted_once();
}

TEST_P(LongOutages, MakeWorkersComeBackAsNewOnes) {
  start("ms|ww", folder_.job(), count(10));
  go_away();
  expect_success();
  EXPECT_EQ(folder_.report()["workers_lost"], 2) << master_->output();
  for (const char* const text : {"worker 2 (pid", "worker 3 (pid"})
    EXPECT_TRUE(master_->has_printed(text)) << master_->output();
  expect_each_record_counted_once();
}

TEST_F(Jobs, WaitsForWorkersThatAreAllAway) {
  start("ms|ww", folder_.job(), count(5));
  ASSERT_TRUE(is_training()) << master_->output();
  hosts_.cut();
  ASSERT_TRUE(wait_until([&] {
    const std::string out = master_->output();
    const size_t first = out.find("lost worker");
    return first != out.npos && out.find("lost worker", first + 1) != out.npos;
  })) << master_->output();
  hosts_.set_up();
  expect_success();
  EXPECT_EQ(folder_.report()["workers_lost"], 2);
  expect_each_record_counted_once();
}

// --- joining -------------------------------------------------------------------------------------

TEST_F(Jobs, ProcessesThatListenOnEveryAddressAreFound) {
  start_master(0, folder_.job(), 2, 1, {}, "0.0.0.0:0");
  add(0, "shard", {"--listen", "0.0.0.0:0"});
  add(1, "shard", {"--listen", "0.0.0.0:0"});
  add(1, "worker");
  expect_success();
  EXPECT_TRUE(master_->has_printed("others reach it at " + LocalHosts::ipv4(0) + ":")) << master_->output();
  EXPECT_TRUE(members_[1]->has_printed("reached at " + LocalHosts::ipv4(1) + ":")) << members_[1]->output();
}

// Its dense parameters are kept by an owner in the master's process.
TEST_F(Jobs, AModelWithoutEmbeddingsFindsItsMastersOwner) {
  start_master(0, folder_.job(), 0, 1, folder_.probe("dense_only"), "0.0.0.0:0");
  add(1, "worker");
  expect_success();
}

TEST_F(Jobs, Ipv6AndNamesWork) {
  if (!hosts_.has_ipv6()) GTEST_SKIP() << "this machine has no IPv6";
  for (const std::string& listen : {"[" + LocalHosts::ipv6(0) + "]:0", LocalHosts::ipv6_name(0) + ":0",
                                    LocalHosts::name(0) + ":0", std::string("[::]:0")}) {
    members_.clear();
    start_master(0, folder_.job(), 1, 1, {}, listen);
    add(1, "shard");
    add(1, "worker");
    expect_success();
  }
}

TEST_F(Jobs, AdvertisedNamesAreWhatOthersUse) {
  start_master(0, folder_.job(), 1, 1, {"--advertise", LocalHosts::name(0)}, "0.0.0.0:0");
  add(1, "shard", {"--listen", "0.0.0.0:7901", "--advertise", LocalHosts::name(1) + ":7901"});
  add(0, "worker");
  expect_success();
  EXPECT_TRUE(folder_.read("log.0.1").find("others reach it at host-a:") != std::string::npos)
      << master_->output();
  EXPECT_TRUE(members_[0]->has_printed("reached at host-b:7901")) << members_[0]->output();
}

TEST_F(Jobs, PortsAreOfTheRange) {
  start_master(0, folder_.job(), 2, 1, {"--port-range", "7910-7911"});
  Process& shards = add(1, "shard", {"--owners", "2", "--port-range", "7920-7921"});
  ASSERT_TRUE(wait_until([&] { return shards.has_printed("10.77.0.2:7921"); })) << shards.output();
  Process& third = add(1, "shard", {"--port-range", "7920-7921"});
  EXPECT_EQ(third.wait(), 2);
  EXPECT_TRUE(third.has_printed("no port of --port-range 7920-7921 is free here")) << third.output();
  members_.pop_back();
  add(0, "worker");
  expect_success();
  EXPECT_TRUE(master_->has_printed("10.77.0.1:791")) << master_->output();
  EXPECT_TRUE(members_[0]->has_printed("10.77.0.2:7920")) << members_[0]->output();
}

TEST_F(Jobs, NamesAreLookedUpWheneverAConnectionIsMade) {
  start_master(0, folder_.job(), 1, 1, {}, LocalHosts::ipv4(0) + ":7940");
  ASSERT_TRUE(wait_until([&] { return master_->has_printed("waiting for"); })) << master_->output();
  add(0, "shard");
  members_.push_back(
      start_on(1, {"worker", "--master", "moved:7940", "--secret-file", folder_.path("run/secret")}));
  const Process names(hosts_.on(1, {"/bin/sh", "-c", "sleep 1; echo 10.77.0.1 moved >> /etc/hosts"}),
                      folder_.path("log.names"));
  expect_success();
}

// The master goes on waiting for another shard.
TEST_F(Jobs, AShardThatTheMasterCannotReachIsNamed) {
  start_master(0, folder_.job(), 1, 1, {"--connect-timeout", "2"});
  Process& shard = add(1, "shard", {"--listen", LocalHosts::ipv4(1) + ":7950", "--advertise", "10.77.0.99"});
  EXPECT_EQ(shard.wait(), 2);
  for (const char* const text : {"cannot reach shard 0 (pid", "on host-b) at 10.77.0.99:7950 from host-a",
                                 "open TCP port 7950 of 10.77.0.99 to connections from host-a"})
    EXPECT_TRUE(wait_until([&] { return master_->has_printed(text); })) << master_->output();
}

TEST_F(Jobs, WhoCannotReachTheMasterSaysWhereItIsAndWhatToDo) {
  start_master(0, folder_.job(), 1, 1, {}, LocalHosts::ipv4(0) + ":7930");
  ASSERT_TRUE(wait_until([&] { return master_->has_printed("waiting for"); })) << master_->output();
  hosts_.cut();
  Process& worker = add(1, "worker", {"--connect-timeout", "2"});
  EXPECT_EQ(worker.wait(), 2);
  for (const char* const text : {"from host-b", "10.77.0.1:7930: no answer",
                                 "open TCP port 7930 of 10.77.0.1", "to connections from host-b"})
    EXPECT_TRUE(worker.has_printed(text)) << worker.output();
}

TEST_F(Jobs, AShardThatOnlyItsOwnHostReachesIsNamed) {
  start_master(0, folder_.job(), 1, 1, {}, LocalHosts::ipv4(0) + ":0");
  Process& shard = add(0, "shard", {"--listen", "127.0.0.1:0"});
  ASSERT_TRUE(wait_until([&] { return shard.has_printed("shard 0 of job"); })) << shard.output();
  Process& worker = add(1, "worker", {"--connect-timeout", "2"});
  EXPECT_EQ(worker.wait(), 2);
  for (const char* const text :
       {"shard 0 listens where only its own host reaches it", "--advertise", "host-b"})
    EXPECT_TRUE(worker.has_printed(text)) << worker.output();
}

}  // namespace
}  // namespace embers::testing_support
