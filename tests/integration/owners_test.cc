// Shard processes of several owners, and shards that are bound to CPUs.
#include <filesystem>

#include "tests/integration/jobs.h"
#include "tests/support/closed_port.h"

namespace embers::testing_support {
namespace {

const Words kSync = set({"training.mode=sync", "training.grads_to_wait=3"});
const Words kTwo = {"--owners", "2"};

// What Linux says about the CPUs of each thread of a process, or of this one.
std::vector<std::string> cpus_of_threads(const std::string& pid) {
  std::vector<std::string> all;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task", gone)) {
    const std::string key = "Cpus_allowed_list:\t";
    std::ifstream in(task.path() / "status");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with(key)) all.push_back(line.substr(key.size()));
  }
  return all;
}

// A CPU on which this process may run.
std::string first_cpu() {
  const std::string all = cpus_of_threads("self").at(0);
  return all.substr(0, all.find_first_of(",-"));
}

bool have_joined(const Process& process) {
  return wait_until([&] { return process.has_printed("shard 0 of") && process.has_printed("shard 1 of"); });
}

TEST(Owners, OneProcessOfTwoIsTwoShards) {
  JobFolder folder;
  const std::string expected = folder.train(kSync);
  {
    Cluster two(folder, 2, 2, kSync);
    two.expect_success();
    EXPECT_EQ(folder.read("rows"), expected);
  }
  for (const bool unix_socket : {false, true}) {
    Cluster one(folder, 2, 2, kSync, unix_socket, kTwo);
    one.expect_success();
    EXPECT_EQ(one.shards.size(), 1u);
    EXPECT_TRUE(have_joined(*one.shards[0])) << one.shards[0]->output();
    EXPECT_EQ(folder.report()["shards"], 2);
    EXPECT_EQ(folder.read("rows"), expected);
  }
}

TEST(Owners, BoundToCpusTheyGiveTheSameWeights) {
  JobFolder folder;
  const std::string expected = folder.train(kSync);
  Cluster one(folder, 2, 1, kSync, false, kTwo + Words{"--pin", first_cpu()});
  one.expect_success();
  EXPECT_EQ(folder.read("rows"), expected);
  EXPECT_EQ(folder.train(kSync + Words{"--pin", first_cpu()} + set({"storage.shards=2"})), expected);
}

TEST(Owners, EachShardHasAThreadThatIsBound) {
  if (cpus_of_threads("self").at(0) == first_cpu()) GTEST_SKIP() << "one CPU only";
  JobFolder folder;
  Cluster cluster(folder, 2, 0, kSync, false, kTwo + Words{"--pin", first_cpu()});  // waits for a worker
  ASSERT_TRUE(have_joined(*cluster.shards[0])) << cluster.shards[0]->output();
  const auto bound = [&] {
    const auto threads = cpus_of_threads(std::to_string(cluster.shards[0]->pid()));
    return std::count(threads.begin(), threads.end(), first_cpu());
  };
  EXPECT_TRUE(wait_until([&] { return bound() == 2; })) << bound();
  cluster.add_worker();
  cluster.expect_success();
}

TEST(Owners, AKilledProcessOfTwoEndsTheJobNamingOneOfThem) {
  JobFolder folder;
  Cluster cluster(folder, 2, 2, folder.probe("slow") + set({"model.sleep_ms=20"}), false, kTwo);
  ASSERT_TRUE(folder.hold(*cluster.workers[0]));
  cluster.shards[0]->signal(SIGKILL);
  folder.release();
  EXPECT_EQ(cluster.master->wait(20), 1) << cluster.master->output();
  const std::string pid = "(pid " + std::to_string(cluster.shards[0]->pid());
  EXPECT_TRUE(cluster.master->has_printed("lost shard 0 " + pid) ||
              cluster.master->has_printed("lost shard 1 " + pid))
      << cluster.master->output();
  for (const auto& worker : cluster.workers) {
    EXPECT_EQ(worker->wait(20), 1);
    EXPECT_TRUE(worker->has_printed("lost shard")) << worker->output();
  }
}

TEST(Owners, ALostOwnerEndsAllOfAnotherProcess) {
  JobFolder folder;
  Cluster cluster(folder, 3, 0, folder.probe("slow") + set({"model.sleep_ms=20"}), false, kTwo);
  ASSERT_TRUE(have_joined(*cluster.shards[0])) << cluster.shards[0]->output();
  Process& third = cluster.add_shard();
  ASSERT_TRUE(folder.hold(cluster.add_worker()));
  third.signal(SIGKILL);
  folder.release();
  EXPECT_EQ(cluster.shards[0]->wait(20), 1) << cluster.shards[0]->output();
  EXPECT_TRUE(cluster.shards[0]->has_printed("lost shard 2")) << cluster.shards[0]->output();
  EXPECT_EQ(cluster.master->wait(20), 1) << cluster.master->output();
}

TEST(Owners, AreReplacedWhereTheyAreKilledBeforeTheJobHasBegun) {
  JobFolder folder;
  Cluster cluster(folder, 3, 1, kSync, false, kTwo);
  ASSERT_TRUE(have_joined(*cluster.shards[0])) << cluster.shards[0]->output();
  cluster.shards[0]->signal(SIGKILL);
  cluster.shards[0]->wait(20);
  const auto are_gone = [&] {  // one may not have answered yet: it is refused, not lost
    const std::string text = cluster.master->output(), waits = "the job waits for another shard process";
    const size_t first = text.find(waits);
    return first != std::string::npos && text.find(waits, first + 1) != std::string::npos;
  };
  ASSERT_TRUE(wait_until(are_gone)) << cluster.master->output();
  Process& next = cluster.add_shard(kTwo);
  Process& third = cluster.add_shard();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(next.wait(), 0) << next.output();
  EXPECT_EQ(third.wait(), 0) << third.output();
  EXPECT_EQ(cluster.workers[0]->wait(), 0) << cluster.workers[0]->output();
}

TEST(Owners, ADeadMasterEndsThemAll) {
  JobFolder folder;
  Cluster cluster(folder, 3, 0, kSync, false, kTwo);  // waits for a third
  ASSERT_TRUE(have_joined(*cluster.shards[0])) << cluster.shards[0]->output();
  cluster.master->signal(SIGKILL);
  EXPECT_EQ(cluster.shards[0]->wait(20), 1) << cluster.shards[0]->output();
  EXPECT_TRUE(cluster.shards[0]->has_printed("lost the master at " + cluster.address))
      << cluster.shards[0]->output();
}

TEST(Owners, SigtermSavesAndEndsTheJob) {
  JobFolder folder;
  Cluster cluster(folder, 2, 1,
                  folder.probe("slow") + set({"model.sleep_ms=20", "training.epochs=50"}) +
                      Words{"--output", folder.path("model")},
                  false, kTwo);
  ASSERT_TRUE(cluster.is_training());
  cluster.shards[0]->signal(SIGTERM);
  cluster.expect_success();
  EXPECT_EQ(folder.report()["stopped"], true);
  EXPECT_TRUE(cluster.master->has_printed("saved to")) << cluster.master->output();
}

TEST(Owners, MoreThanTheJobHasPlacesForAreRefusedAndTheJobGoesOn) {
  JobFolder folder;
  Cluster cluster(folder, 2, 1, kSync, false, {"--owners", "3"});
  EXPECT_EQ(cluster.shards[0]->wait(), 2) << cluster.shards[0]->output();
  EXPECT_TRUE(cluster.shards[0]->has_printed("2 shards, of which 2 have not joined yet: a process with 3"))
      << cluster.shards[0]->output();
  Process& first = cluster.add_shard();
  ASSERT_TRUE(wait_until([&] { return first.has_printed("shard 0 of"); })) << first.output();
  Process& two = cluster.add_shard(kTwo);
  EXPECT_EQ(two.wait(), 2) << two.output();
  EXPECT_TRUE(two.has_printed("of which 1 has not joined yet: a process with 2 owners")) << two.output();
  Process& second = cluster.add_shard();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_EQ(second.wait(), 0) << second.output();
}

TEST(Owners, AShardThatTheMasterCannotReachIsRefusedAloneAndAnotherOneTakesItsPlace) {
  JobFolder folder;
  const ClosedPort nobody;
  Cluster cluster(folder, 1, 1, kSync, false, {"--advertise", nobody.address()});
  EXPECT_EQ(cluster.shards[0]->wait(), 2) << cluster.shards[0]->output();
  for (const std::string& text : {std::string("the master cannot reach shard 0"), nobody.address(),
                                  std::string("Connection refused"), std::string("--advertise")})
    EXPECT_TRUE(cluster.shards[0]->has_printed(text)) << text << " in " << cluster.shards[0]->output();
  EXPECT_TRUE(cluster.master->has_printed("the job waits for another shard process"))
      << cluster.master->output();
  Process& second = cluster.add_shard({"--listen", "127.0.0.1:0"});
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(cluster.workers[0]->wait(), 0) << cluster.workers[0]->output();
}

TEST(Owners, BadOptionsAreNamed) {
  struct Case {
    Words words;
    std::string said;
  };
  JobFolder folder;
  const Words shard = {"shard", "--master", "127.0.0.1:1", "--connect-timeout", "0.5"};
  for (const Case& c : std::vector<Case>{
           {{"--owners", "0"}, "--owners"},
           {{"--owners", "two"}, "--owners"},
           {{"--pin", "zero"}, "--pin: 'zero'"},
           {{"--pin", "999999"}, "--pin: CPU 999999 of '999999' does not exist"},
           {kTwo + Words{"--listen", "127.0.0.1:7701"},
            "--listen 127.0.0.1:7701 is an address for one owner"},
           {kTwo + Words{"--listen", "unix:@one"}, "--listen unix:@one is an address for one owner"},
       }) {
    EXPECT_EQ(folder.run(shard + c.words), 2) << folder.output();
    EXPECT_NE(folder.output().find(c.said), std::string::npos) << folder.output();
  }
  EXPECT_EQ(folder.run({"train", folder.job(), "--pin", "0,,1"}), 2) << folder.output();
  EXPECT_NE(folder.output().find("--pin: ''"), std::string::npos) << folder.output();
}

}  // namespace
}  // namespace embers::testing_support
