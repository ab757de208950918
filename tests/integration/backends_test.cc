// Jobs whose tables are in memcached or Redis.
#include <filesystem>

#include "tests/integration/jobs.h"
#include "tests/support/servers.h"

namespace embers::testing_support {
namespace {

const Words kSync = set({"training.mode=sync", "training.grads_to_wait=3"});

Words backend(const std::string& name) { return set({"storage.backend=" + name}); }
Words backend(const std::string& name, const std::vector<const ServerProcess*>& servers) {
  std::string list;
  for (const ServerProcess* server : servers)
    list += (list.empty() ? "\"" : ",\"") + server->address() + "\"";
  return backend(name) + set({"storage.servers=[" + list + "]"});
}

class Backend : public testing::TestWithParam<std::string> {
 protected:
  static ServerProcess start() {
    return GetParam() == "redis" ? ServerProcess::redis() : ServerProcess::memcached();
  }

  // Port of the job's own server, from what the process printed; 0 before it did.
  static uint16_t own_port(const Process& process) {
    const std::string out = process.output(), before = " at 127.0.0.1:";
    const size_t own = out.find("the job's own " + GetParam() + " server");
    const size_t at = own == out.npos ? own : out.find(before, own);
    return at == out.npos ? 0 : static_cast<uint16_t>(std::stoi(out.substr(at + before.size())));
  }

  JobFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(All, Backend, testing::Values("memcached", "redis"),
                         [](const auto& param) { return param.param; });

TEST_P(Backend, SyncJobEndsInTheSameWeightsAsInMemory) {
  const std::string expected = folder_.train(kSync);
  ASSERT_GT(expected.size(), 1000u);
  EXPECT_EQ(folder_.train(kSync + backend(GetParam())), expected);
  EXPECT_EQ(folder_.train(kSync + backend(GetParam()) + set({"training.workers=2", "storage.shards=3"})),
            expected);
  const ServerProcess a = start(), b = start();
  const Words given =
      kSync + backend(GetParam(), {&a, &b}) + set({"storage.journal=" + folder_.path("journal")});
  EXPECT_EQ(folder_.train(given), expected);
  // What an earlier run of the job left at its servers is not used.
  Cluster cluster(folder_, 2, 2, given);
  cluster.expect_success();
  EXPECT_EQ(folder_.read("rows"), expected);
}

TEST_P(Backend, AJobGoesOnFromACheckpointOfAnotherBackend) {
  const std::string expected = folder_.train(kSync);
  const Words saved = {"--output", folder_.path("model")}, resume = {"--resume", folder_.path("model")};
  folder_.train(kSync + set({"training.epochs=1"}) + saved);
  EXPECT_EQ(folder_.train(kSync + backend(GetParam()) + resume), expected);
  folder_.train(kSync + set({"training.epochs=1"}) + backend(GetParam()) + saved);
  EXPECT_EQ(folder_.train(kSync + resume), expected);
  EXPECT_EQ(
      folder_.run(Words{"evaluate", folder_.job(), "--model", folder_.path("model")} + backend(GetParam())),
      0)
      << folder_.output();
}

TEST_P(Backend, TheJobsOwnServerEndsWithIt) {
  const Words slow = folder_.probe("slow") + set({"model.sleep_ms=20"}) + backend(GetParam());
  const auto train = folder_.start(Words{"train", folder_.job(), "--output", folder_.path("model")} + slow);
  ASSERT_TRUE(wait_until([&] { return train->has_printed(" examples  "); })) << train->output();
  const uint16_t port = own_port(*train);
  ASSERT_TRUE(is_listening(port)) << train->output();
  train->signal(SIGINT);
  EXPECT_EQ(train->wait(), 0) << train->output();
  EXPECT_FALSE(is_listening(port));
}

TEST_P(Backend, TheJobsOwnServerEndsWithAMasterThatIsKilled) {
  Cluster cluster(folder_, 1, 1, folder_.probe("slow") + set({"model.sleep_ms=20"}) + backend(GetParam()));
  ASSERT_TRUE(cluster.is_training());
  const uint16_t port = own_port(*cluster.master);
  ASSERT_TRUE(is_listening(port)) << cluster.master->output();
  cluster.master->signal(SIGKILL);
  EXPECT_TRUE(wait_until([&] { return !is_listening(port); }));
  EXPECT_EQ(cluster.shards[0]->wait(20), 1);
}

// One server of two dies; `restarted`: another takes its place at once.
void expect_loss_reported(JobFolder& folder, const std::string& name, std::vector<ServerProcess> servers,
                          bool restarted) {
  const Words slow = folder.probe("slow") + set({"model.sleep_ms=20"});
  const auto train = folder.start(Words{"train", folder.job(), "--output", folder.path("model")} + slow +
                                  backend(name, {&servers[0], &servers[1]}));
  ASSERT_TRUE(wait_until([&] { return train->has_printed(" examples  "); })) << train->output();
  if (restarted)
    servers[1].restart();
  else
    servers[1].kill();
  EXPECT_EQ(train->wait(60), 1) << train->output();
  EXPECT_TRUE(train->has_printed(servers[1].address())) << train->output();
  EXPECT_TRUE(train->has_printed("rows")) << train->output();
  EXPECT_TRUE(train->has_printed("--resume")) << train->output();
  EXPECT_FALSE(std::filesystem::exists(folder.path("model/manifest.json")));
}

TEST_P(Backend, AServerThatIsKilledAndStartedAgainEndsTheJob) {
  std::vector<ServerProcess> servers;
  for (int i = 0; i < 2; ++i) servers.push_back(start());
  expect_loss_reported(folder_, GetParam(), std::move(servers), true);
}

TEST_P(Backend, AServerThatIsKilledEndsTheJob) {
  std::vector<ServerProcess> servers;
  for (int i = 0; i < 2; ++i) servers.push_back(start());
  expect_loss_reported(folder_, GetParam(), std::move(servers), false);
}

TEST_P(Backend, AServerThatCannotBeReachedIsNamedAtTheStart) {
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  const Words words = backend(GetParam()) + set({"storage.servers=" + address});
  EXPECT_EQ(folder_.run(Words{"train", folder_.job()} + words), 2);
  EXPECT_NE(folder_.output().find(address), std::string::npos) << folder_.output();
  EXPECT_NE(folder_.output().find("efused"), std::string::npos) << folder_.output();
  const Words master = {"master", folder_.job(), "--listen", "127.0.0.1:0"};
  EXPECT_EQ(folder_.run(master + words), 2);
  EXPECT_NE(folder_.output().find(address), std::string::npos) << folder_.output();
}

TEST_P(Backend, AnAddressThatIsNoneIsRefusedWithItsPlace) {
  EXPECT_EQ(
      folder_.run(Words{"check", folder_.job()} + backend(GetParam()) + set({"storage.servers=nowhere"})), 2);
  EXPECT_NE(folder_.output().find("--set storage.servers=nowhere: 'nowhere'"), std::string::npos)
      << folder_.output();
}

TEST_P(Backend, AModelWithoutEmbeddingLayersNeedsNoServer) {
  // Nobody listens there, and nobody is asked.
  EXPECT_EQ(folder_.run(Words{"train", folder_.job()} + folder_.probe("dense_only") + backend(GetParam()) +
                        set({"storage.servers=127.0.0.1:1"})),
            0)
      << folder_.output();
}

TEST_P(Backend, CensusIsLearntAsWellAsInMemory) {
  if (!std::filesystem::exists(std::string(EMBERS_CENSUS_DIR) + "/adult.data"))
    GTEST_SKIP() << "UCI's census files are not in " EMBERS_CENSUS_DIR " (set EMBERS_CENSUS_DIR)";
  ASSERT_EQ(folder_.run(Words{"train", EMBERS_CENSUS_JOB, "--set", "data.dir=" EMBERS_CENSUS_DIR, "--report",
                              folder_.path("out.json")} +
                        backend(GetParam())),
            0)
      << folder_.output();
  EXPECT_GE(folder_.report()["accuracy"], 0.870);
}

}  // namespace
}  // namespace embers::testing_support
