// Jobs whose model and work come with the first worker, a program on client::Session; in processes.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/integration/jobs.h"
#include "tests/support/servers.h"

namespace embers {
namespace {

using namespace testing_support;

// A master without a job file, or with one, shards, and workers.
class Job {
 public:
  explicit Job(std::nullptr_t) {}  // start() is to follow
  explicit Job(const Words& words = {}, int shards = 2, const std::string& file = "") {
    Words command{"master"};
    if (!file.empty()) {
      folder.write("first.toml", file);
      command.push_back(folder.path("first.toml"));
    }
    command = command + Words{"--listen",    "127.0.0.1:0",       "--shards", std::to_string(shards),
                              "--dump-rows", folder.path("rows"), "--report", folder.path("out.json")} +
              set({"training.reduction=sum", "job.heartbeat_timeout=3"}) + words;
    start(command, shards);
  }

  void start(const Words& command, int number_of_shards) {
    shards.clear();
    workers.clear();
    master = folder.start(command);
    EXPECT_TRUE(wait_until([&] { return !address().empty(); })) << master->output();
    for (int i = 0; i < number_of_shards; ++i)
      shards.push_back(folder.start({"shard", "--master", address(), "--listen", "127.0.0.1:0"}));
  }

  Process& add_worker(const Words& words = {}) {
    workers.push_back(
        std::make_unique<Process>(Words{path_of(EMBERS_CLIENT_WORKER), "master=" + address()} + words,
                                  folder.path("worker." + std::to_string(++started_))));
    return *workers.back();
  }

  std::string address() const {
    const std::string out = master->output(), before = "' at ";
    const size_t begin = out.find(before), end = out.find(": waiting");
    if (begin == std::string::npos || end == std::string::npos) return "";
    return out.substr(begin + before.size(), end - begin - before.size());
  }

  void expect_success() {
    for (const auto& p : workers) ASSERT_EQ(p->wait(), 0) << p->output() << master->output();
    ASSERT_EQ(master->wait(), 0) << master->output();
    for (const auto& p : shards) EXPECT_EQ(p->wait(), 0) << p->output();
  }

  // Each of the records was trained so often.
  void expect_counts(int records, double times) const {
    const auto rows = parse_dump(folder.read("rows"));
    for (int r = 0; r < records; ++r) {
      const auto row = rows.find("count\t" + std::to_string(r));
      ASSERT_NE(row, rows.end()) << "record " << r << " was never trained";
      ASSERT_EQ(row->second, std::vector<double>{times}) << "record " << r;
    }
  }

  JobFolder folder;
  std::unique_ptr<Process> master;
  std::vector<std::unique_ptr<Process>> shards, workers;

 private:
  int started_ = 0;
};

TEST(FirstWorker, BringsModelAndWorkToAJobWithoutAFile) {
  Job job;
  // Shards are there, and wait.
  ASSERT_TRUE(wait_until([&] {
    return job.master->has_printed("shard 0") && job.master->has_printed("shard 1");
  })) << job.master->output();
  ASSERT_EQ(job.folder.run({"status", "--json", "--master", job.address()}), 0) << job.folder.output();
  const auto status = nlohmann::json::parse(job.folder.output());
  EXPECT_EQ(status["phase"], "gathering");
  EXPECT_EQ(status["shards"]["joined"], 2);
  EXPECT_EQ(status["epochs"], 0);
  Process& worker = job.add_worker({"records=305"});
  job.expect_success();
  EXPECT_TRUE(
      job.master->has_printed("the model came with worker 0: 2 tables, 2 parameters and buffers; 31 "
                              "minibatches of 10 records"))
      << job.master->output();
  job.expect_counts(305, 2);
  const auto rows = parse_dump(job.folder.read("rows"));
  EXPECT_EQ(rows.size(), 305u + 23 + 2);
  EXPECT_NE(rows.at("_dense\tw#0"), (std::vector<double>{0.1, -0.2, 0.3, 0.4, 0.5}));
  EXPECT_TRUE(worker.has_printed("sum 610")) << "looked up when there was no more work\n" << worker.output();
  EXPECT_EQ(job.folder.report()["examples"], 610);
}

TEST(FirstWorker, MayHoldAShareOfTheRowsSoThatNobodyIsAShardAlone) {
  Job job(nullptr);
  job.start(Words{"master", "--listen", "127.0.0.1:0", "--shards", "2", "--workers", "2", "--dump-rows",
                  job.folder.path("rows"), "--report", job.folder.path("out.json")} +
                set({"training.reduction=sum"}),
            0);
  for (int i = 0; i < 2; ++i) job.add_worker({"records=305", "owner=1"});
  job.expect_success();
  job.expect_counts(305, 2);
  EXPECT_EQ(job.folder.report()["shards"], 2);
  for (const auto& worker : job.workers)
    EXPECT_TRUE(worker->has_printed("sum 610")) << "looked up when there was no more work\n"
                                                << worker->output();
}

// Kills the second worker in the middle of the first epoch.
void kill_one(Job& job) {
  ASSERT_TRUE(wait_until([&] { return job.workers[1]->has_printed("1 "); })) << job.master->output();
  job.workers[1]->signal(SIGKILL);
  job.workers[1]->wait();
  job.workers.erase(job.workers.begin() + 1);
}

class Windows : public testing::TestWithParam<int> {
 public:
  Words words(const std::string& records, const std::string& slow) const {
    return {records, slow, "window=" + std::to_string(GetParam())};
  }
};
INSTANTIATE_TEST_SUITE_P(FirstWorker, Windows, testing::Values(0, 1, 5));

TEST_P(Windows, AsyncCountsEveryRecordOnceThoughAWorkerIsKilled) {
  Job job({"--workers", "3"});
  for (int i = 0; i < 3; ++i) job.add_worker(words("records=600", "slow=50"));
  kill_one(job);
  job.add_worker(words("records=600", "slow=50"));
  job.expect_success();
  job.expect_counts(600, 2);
}

TEST_P(Windows, SyncHasTheSameBitsForOneTwoAndThreeWorkersAndWithOneKilled) {
  std::set<std::string> results;
  for (const int workers : {1, 2, 3, -3}) {
    Job job(Words{"--workers", std::to_string(std::abs(workers))} +
                set({"training.mode=sync", "training.grads_to_wait=3"}),
            workers == 2 ? 1 : 2);
    for (int i = 0; i < std::abs(workers); ++i) job.add_worker(words("records=605", "slow=2"));
    if (workers < 0) kill_one(job);
    job.expect_success();
    job.expect_counts(605, 2);
    results.insert(job.folder.read("rows"));
  }
  // And as with other windows.
  static std::set<std::string> all;
  all.insert(results.begin(), results.end());
  EXPECT_EQ(all.size(), 1u);
}

// By a worker, which has more leases than it works on, and by a command.
TEST_P(Windows, AJobThatIsSavedInTheMiddleGoesOnAndSoDoesOneThatBeginsThere) {
  for (const std::string mode : {"async", "sync"}) {
    const Words at = Words{"--workers", "2"} + set({"training.mode=" + mode, "training.grads_to_wait=3",
                                                    "training.minibatches_per_lease=4"});
    Job job(at);
    const std::string saved = job.folder.path("saved"), other = job.folder.path("other");
    job.add_worker(words("records=600", "slow=30") + Words{"save=" + saved});
    job.add_worker(words("records=600", "slow=30"));
    ASSERT_TRUE(wait_until([&] { return job.workers[0]->has_printed("saved"); })) << job.master->output();
    ASSERT_EQ(job.folder.run({"checkpoint", "--out", other, "--json", "--master", job.address()}), 0)
        << job.folder.output();
    const std::string phase = nlohmann::json::parse(job.folder.output())["phase"];
    EXPECT_TRUE(phase != "ending" && phase != "over") << phase;
    job.expect_success();
    job.expect_counts(600, 2);
    for (const std::string& from : {saved + "/middle", other, saved + "/end"}) {
      Job next(at + Words{"--resume", from});
      for (int i = 0; i < 2; ++i) next.add_worker(words("records=600", "slow=1"));
      next.expect_success();
      next.expect_counts(600, 2);
      if (from != saved + "/end") EXPECT_LT(next.folder.report()["examples"], 1200);
      if (from != saved + "/end") EXPECT_GT(next.folder.report()["examples"], 0);
      if (mode == "sync") EXPECT_EQ(next.folder.read("rows"), job.folder.read("rows")) << from;
    }
  }
}

TEST(FirstWorker, OthersMustAgreeWithIt) {
  Job job({"--workers", "2"});
  job.add_worker({"slow=1"});
  ASSERT_TRUE(wait_until([&] { return job.master->has_printed("the model came with"); }));
  const auto refused = [&](const Words& words, const std::vector<std::string>& parts) {
    Process& other = job.add_worker(words);
    EXPECT_EQ(other.wait(), 2) << other.output();
    for (const std::string& part : parts)
      EXPECT_TRUE(other.has_printed(part)) << part << "\n" << other.output();
    job.workers.pop_back();
  };
  refused({"dim=4"}, {"table 'user': dim 3", "dim 4"});
  refused({"records=301"}, {"records 300 at the master, 301 at the worker"});
  refused({"batch=11"}, {"batch_size 10", "11"});
  refused({"epochs=3"}, {"epochs 2", "3"});
  refused({"data=1"}, {"order = 7919 at the master", "order = 79191"});
  refused({"optimizer=sgd"}, {"table 'user': optimizer adam { learning_rate = 0.01 }", "sgd"});
  refused({"optimizer=adamm"}, {"adamm", "did you mean 'adam'"});
  EXPECT_EQ(job.folder.run({"worker", "--master", job.address()}), 2);
  EXPECT_NE(job.folder.output().find("comes with its first worker"), std::string::npos)
      << job.folder.output();
  job.add_worker({"slow=1"});
  job.expect_success();
  job.expect_counts(300, 2);
}

// Neither wins silently.
TEST(FirstWorker, MayNotContradictTheOptimizerOfTheJobFile) {
  Job job({}, 2, "[optimizer]\nname = \"sgd\"\nlearning_rate = 0.5\n");
  for (const std::string given :
       {"{ name = \"adam\", learning_rate = 0.5 }", "{ name = \"sgd\", learning_rate = 0.1 }", "sgd"}) {
    Process& other = job.add_worker({"optimizer=" + given});
    EXPECT_EQ(other.wait(), 2) << other.output();
    EXPECT_TRUE(
        other.has_printed("first.toml:1: [optimizer] of job 'job' is sgd { learning_rate = 0.5 }, but "
                          "this program's optimizer is "))
        << other.output();
    job.workers.pop_back();
  }
  job.add_worker({"optimizer={ name = \"sgd\", learning_rate = 0.5, momentum = 0.9 }"});
  job.expect_success();
  job.expect_counts(300, 2);
}

class Servers : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(FirstWorker, Servers, testing::Values("memcached", "redis"),
                         [](const auto& param) { return param.param; });

TEST_P(Servers, KeepTheRowsOfAModelThatComesWithAWorker) {
  if (!std::filesystem::exists(GetParam() == "redis" ? "/usr/bin/redis-server" : "/usr/bin/memcached"))
    GTEST_SKIP() << GetParam() << " is not installed";
  const ServerProcess server = GetParam() == "redis" ? ServerProcess::redis() : ServerProcess::memcached();
  const Words storage =
      set({"storage.backend=" + GetParam(), "storage.servers=[\"" + server.address() + "\"]"});
  Job job(storage + Words{"--workers", "2"});
  for (int i = 0; i < 2; ++i) job.add_worker({"records=305", "slow=1"});
  job.expect_success();
  job.expect_counts(305, 2);
  EXPECT_EQ(parse_dump(job.folder.read("rows")).size(), 305u + 23 + 2);
  for (const auto& worker : job.workers) EXPECT_TRUE(worker->has_printed("sum 610")) << worker->output();
}

TEST(FirstWorker, OfAResumedJobMustAgreeWithTheCheckpoint) {
  Job job(nullptr);
  const auto command = [&](const Words& words) {
    return Words{"master",
                 "--listen",
                 "127.0.0.1:0",
                 "--shards",
                 "2",
                 "--dump-rows",
                 job.folder.path("rows"),
                 "--output",
                 job.folder.path("saved")} +
           set({"training.reduction=sum"}) + words;
  };
  job.start(command({}), 2);
  job.add_worker({"slow=2"});
  ASSERT_TRUE(wait_until([&] { return job.workers[0]->has_printed("1 7"); })) << job.workers[0]->output();
  job.master->signal(SIGINT);  // in the middle of the first epoch
  EXPECT_EQ(job.master->wait(), 0) << job.master->output();
  EXPECT_TRUE(job.master->has_printed("saved to")) << job.master->output();
  job.workers[0]->wait();

  job.start(command({"--resume", job.folder.path("saved")}), 2);
  Process& other = job.add_worker({"dim=4"});
  EXPECT_EQ(other.wait(), 2);
  EXPECT_TRUE(other.has_printed("was saved by another model: table 'user': dim 3")) << other.output();
  job.workers.pop_back();
  job.add_worker({"epochs=3"});
  job.expect_success();
  job.expect_counts(300, 3);
}

TEST(FirstWorker, IsAskedForByNothingElse) {
  JobFolder folder;
  const auto refused = [&](const std::string& text, const Words& command, const std::string& why) {
    folder.write("first.toml", text);
    EXPECT_EQ(folder.run(command), 2) << folder.output();
    EXPECT_NE(folder.output().find(why), std::string::npos) << folder.output();
  };
  const std::string file = folder.path("first.toml");
  refused("[optimizer]\nname = \"adam\"\n", {"train", file},
          "only embers master and embers launch run the job");
  refused("[training]\nepochs = 2\n", {"check", file},
          "first.toml:2: [training] 'epochs' comes with the first");
  refused("[features]\n", {"check", file}, "section [features] needs [model] and [data]");
  refused("[model]\nname = \"deepfm\"\n", {"check", file}, "section [data] is missing");
  refused("[optimizer]\nname = \"adamm\"\n", {"check", file}, "adamm");
  refused("", {"launch", "--shards", "1"}, "say which program they run");
  folder.write("first.toml", "[optimizer]\nname = \"adam\"\n");
  EXPECT_EQ(folder.run({"check", file}), 0) << folder.output();
}

}  // namespace
}  // namespace embers
