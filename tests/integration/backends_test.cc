// Jobs whose tables are in memcached or Redis.
#include <algorithm>
#include <filesystem>
#include <functional>

#include "tests/integration/jobs.h"
#include "tests/support/closed_port.h"
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

TEST_P(Backend, WorkersReadTheLatestRowsStraightFromTheServers) {
  const auto expect_direct = [&](const Words& words) {
    folder_.train(words + backend(GetParam()));
    // The owner of a key is only asked for it until it has a row.
    const auto report = folder_.report();
    EXPECT_GT(report["rows_read_directly"], 5 * report["rows_read_through_owners"].get<double>())
        << report.dump();
  };
  expect_direct({});
  expect_direct(set({"training.mode=bounded", "training.workers=2", "storage.shards=2"}));
  expect_direct(set({"training.get_model_steps=3"}));
  const ServerProcess a = start(), b = start();
  Cluster cluster(folder_, 2, 2, backend(GetParam(), {&a, &b}));
  cluster.expect_success();
  EXPECT_GT(folder_.report()["rows_read_directly"],
            5 * folder_.report()["rows_read_through_owners"].get<double>());
}

TEST_P(Backend, ASyncJobPullsItsVersionsThroughOwners) {
  folder_.train(kSync + backend(GetParam()) + set({"data.test=[]"}));
  EXPECT_EQ(folder_.report()["rows_read_directly"], 0);
  EXPECT_GT(folder_.report()["rows_read_through_owners"], 0);
}

TEST_P(Backend, EveryGradientOfAnAsyncJobIsAppliedOnce) {
  // A probe: its rows count the records that held their key, so their order does not matter.
  const Words count = folder_.probe("count") + set({"optimizer.name=sgd", "optimizer.learning_rate=1",
                                                    "training.workers=2", "storage.shards=2"});
  const std::string expected = folder_.train(count);
  EXPECT_EQ(folder_.train(count + backend(GetParam())), expected);
}

TEST_P(Backend, RowsAreSpreadOverAllOfTheJobsOwnServers) {
  const std::string expected = folder_.train(kSync);
  EXPECT_EQ(folder_.train(kSync + backend(GetParam()) + set({"storage.own_servers=3"})), expected);
}

// When something happens to one of a job's two servers, the job ends with a message that names that server.
void expect_loss_reported(JobFolder& folder, const std::string& name, std::vector<ServerProcess> servers,
                          const std::function<void(ServerProcess&)>& happens) {
  // Without end, but for the server's.
  const Words slow =
      folder.probe("slow") + set({"model.sleep_ms=20", "training.epochs=100000", "storage.server_timeout=4"});
  const auto train = folder.start(Words{"train", folder.job(), "--output", folder.path("model")} + slow +
                                  backend(name, {&servers[0], &servers[1]}));
  ASSERT_TRUE(wait_until([&] { return train->has_printed(" examples  "); })) << train->output();
  happens(servers[1]);
  EXPECT_EQ(train->wait(60), 1) << train->output();
  EXPECT_TRUE(train->has_printed(servers[1].address())) << train->output();
  EXPECT_TRUE(train->has_printed("rows")) << train->output();
  EXPECT_TRUE(train->has_printed("--resume")) << train->output();
  EXPECT_FALSE(std::filesystem::exists(folder.path("model/manifest.json")));
}

std::vector<ServerProcess> two(const std::function<ServerProcess()>& start) {
  std::vector<ServerProcess> servers;
  for (int i = 0; i < 2; ++i) servers.push_back(start());
  return servers;
}

TEST_P(Backend, AServerThatIsKilledAndStartedAgainEndsTheJob) {
  expect_loss_reported(folder_, GetParam(), two(start), [](ServerProcess& server) { server.restart(); });
}

TEST_P(Backend, AJobThatLostAServerGoesOnFromItsLastCheckpoint) {
  ServerProcess server = start();
  const Words job = kSync + backend(GetParam(), {&server});
  // Without end, but for the server's.
  const auto train =
      folder_.start(Words{"train", folder_.job(), "--output", folder_.path("model"), "--save-every", "1"} +
                    job + set({"training.epochs=100000"}));
  ASSERT_TRUE(wait_until([&] { return train->has_printed("saved to"); })) << train->output();
  server.restart();
  EXPECT_EQ(train->wait(60), 1) << train->output();
  // One more epoch, from rows that are in memory and in the new server.
  const auto manifest = nlohmann::json::parse(folder_.read("model/manifest.json"));
  const Words resume = Words{"--resume", folder_.path("model")} +
                       set({"training.epochs=" + manifest["cursor"]["epoch"].dump()});
  const std::string expected = folder_.train(kSync + resume);
  EXPECT_EQ(folder_.report()["examples"], JobFolder::kRecords);
  EXPECT_EQ(folder_.train(job + resume), expected);
}

TEST_P(Backend, AServerThatIsKilledEndsTheJob) {
  expect_loss_reported(folder_, GetParam(), two(start), [](ServerProcess& server) { server.kill(); });
}

TEST_P(Backend, AServerThatIsFlushedEndsTheJob) {
  expect_loss_reported(folder_, GetParam(), two(start), [](ServerProcess& server) { server.flush(); });
}

TEST_P(Backend, AServerThatStopsAnsweringEndsTheJob) {
  expect_loss_reported(folder_, GetParam(), two(start), [](ServerProcess& server) { server.stop(); });
}

// A job with more rows than its server has memory for; `words` are the server's options that limit its
// memory.
void expect_full_server_reported(JobFolder& folder, const std::string& name, const Words& words) {
  std::string records;
  for (int i = 0; i < 3000; ++i) records += "red," + std::to_string(i) + ",t,1,yes\n";
  folder.write("train.csv", records);
  const ServerProcess server =
      name == "redis" ? ServerProcess::redis(words) : ServerProcess::memcached(words);
  // A row and its slots: 96 KiB.
  const Words large = set({"model.dim=8192", "model.hidden=[1]", "training.epochs=1"});
  EXPECT_EQ(folder.run(Words{"train", folder.job(), "--output", folder.path("model")} + large +
                       backend(name, {&server})),
            1);
  EXPECT_NE(folder.output().find("server " + server.address()), std::string::npos) << folder.output();
  EXPECT_NE(folder.output().find("--resume"), std::string::npos) << folder.output();
  EXPECT_FALSE(std::filesystem::exists(folder.path("model/manifest.json")));
}

TEST_P(Backend, AServerThatIsFullEndsTheJob) {
  expect_full_server_reported(folder_, GetParam(),
                              GetParam() == "redis" ? Words{"--maxmemory", "64mb"} : Words{"-M", "-m", "64"});
}

TEST_P(Backend, AServerThatEvictsRowsEndsTheJob) {
  expect_full_server_reported(folder_, GetParam(),
                              GetParam() == "redis"
                                  ? Words{"--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"}
                                  : Words{"-m", "64"});
}

TEST_P(Backend, AServerThatOnlyAWorkerCannotReachEndsTheJob) {
  const ServerProcess server = start();
  const ClosedPort closed;
  const std::string elsewhere = closed.address();
  Cluster cluster(folder_, 1, 0, backend(GetParam(), {&server}) + set({"training.workers=1"}));
  cluster.add_worker(set({"storage.servers=" + elsewhere}));
  EXPECT_EQ(cluster.master->wait(), 1) << cluster.master->output();
  EXPECT_TRUE(cluster.master->has_printed(elsewhere)) << cluster.master->output();
  EXPECT_TRUE(cluster.master->has_printed("cannot read rows")) << cluster.master->output();
  EXPECT_EQ(cluster.workers[0]->wait(), 1) << cluster.workers[0]->output();
}

TEST_P(Backend, AServerThatCannotBeReachedIsNamedAtTheStart) {
  const ClosedPort closed;
  const std::string address = closed.address();
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
  // No server listens there, and none is needed.
  EXPECT_EQ(folder_.run(Words{"train", folder_.job()} + folder_.probe("dense_only") + backend(GetParam()) +
                        set({"storage.servers=127.0.0.1:1"})),
            0)
      << folder_.output();
}

TEST_P(Backend, CensusIsLearntAsWellAsInMemory) {
  SKIP_WITHOUT_CENSUS();
  ASSERT_EQ(folder_.run(Words{"train", path_of(EMBERS_CENSUS_JOB), "--set", "data.dir=" + census_dir(),
                              "--report", folder_.path("out.json")} +
                        backend(GetParam())),
            0)
      << folder_.output();
  EXPECT_GE(folder_.report()["accuracy"], 0.870);
  EXPECT_GT(folder_.report()["rows_read_directly"], 0);
}

}  // namespace
}  // namespace embers::testing_support
