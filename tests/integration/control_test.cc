// Jobs that are looked at and steered by embers status, scale, drain and stop while they run.
#include <cstdlib>
#include <filesystem>

#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

using nlohmann::json;

// Environment of this process and its children.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

class Steered : public testing::Test {
 protected:
  // A job that takes this many epochs of about 63 minibatches, each of which takes a worker 20 ms; its rows
  // count the records that held their key.
  void start(int epochs, int shards, int workers, const Words& words = {}) {
    job_ = set({"optimizer.name=sgd", "optimizer.learning_rate=1", "training.reduction=sum",
                "training.epochs=" + std::to_string(epochs), "model.sleep_ms=20"}) +
           folder_.probe("count") + words;
    cluster_.emplace(folder_, shards, workers, job_);
  }
  Words at_master() const { return {"--master", cluster_->address}; }
  json status() {
    EXPECT_EQ(folder_.run(Words{"status", "--json"} + at_master()), 0) << folder_.output();
    return json::parse(folder_.output());
  }
  // Until the status is as it should be.
  template <class Condition>
  void expect_status(Condition condition, const std::string& what) {
    json last;
    EXPECT_TRUE(wait_until([&] { return condition(last = status()); })) << what << ": " << last.dump(2);
  }
  void expect_workers(uint64_t wanted, uint64_t joined) {
    expect_status(
        [&](const json& s) { return s["workers"]["wanted"] == wanted && s["workers"]["joined"] == joined; },
        std::to_string(joined) + " of " + std::to_string(wanted) + " workers");
  }
  void steer(const Words& words) { EXPECT_EQ(folder_.run(words + at_master()), 0) << folder_.output(); }
  void expect_fails(const Words& words, std::initializer_list<std::string> parts, int status = 2) {
    EXPECT_EQ(folder_.run(words), status) << folder_.output();
    for (const std::string& part : parts)
      EXPECT_NE(folder_.output().find(part), std::string::npos)
          << "no '" << part << "' in " << folder_.output();
  }
  static json member(const json& status, const std::string& name) {
    for (const json& m : status["members"])
      if (m["name"] == name) return m;
    return nullptr;
  }
  double counted() const {
    double sum = 0;
    for (const auto& [key, row] : parse_dump(folder_.read("rows")))
      if (key.starts_with("count/color\t")) sum += row.at(0);
    return sum;
  }

  JobFolder folder_;
  Words job_;
  std::optional<Cluster> cluster_;
};

TEST_F(Steered, FromOneWorkerToThreeAndBackWithEveryRecordCountedOnce) {
  start(1000, 2, 1);
  ASSERT_TRUE(cluster_->is_training());
  expect_workers(1, 1);
  steer({"scale", "--workers", "3"});
  EXPECT_TRUE(folder_.output().starts_with("3 workers are wanted, 1 is there")) << folder_.output();
  expect_workers(3, 1);
  {
    const Variable label("EMBERS_LABEL", "launched");
    cluster_->add_worker();
    cluster_->add_worker();
  }
  expect_workers(3, 3);
  expect_status(
      [](const json& s) {
        return member(s, "worker 1")["minibatches"] > 5 && member(s, "worker 2")["minibatches"] > 5;
      },
      "all work");
  const json s = status();
  EXPECT_EQ(member(s, "worker 0")["label"], "");
  EXPECT_EQ(member(s, "worker 1")["label"], "launched");
  steer({"scale", "--workers", "2"});
  expect_workers(2, 2);
  steer({"drain", "worker-1"});
  expect_workers(1, 1);
  for (const int i : {1, 2}) {
    EXPECT_EQ(cluster_->workers[i]->wait(20), 0) << cluster_->workers[i]->output();
    EXPECT_TRUE(cluster_->workers[i]->has_printed("wants fewer workers"))
        << "worker " << i << cluster_->workers[i]->output();
  }
  EXPECT_EQ(cluster_->workers[0]->wait(0), -1) << "it goes on";
  steer({"stop"});
  cluster_->expect_success();
  const json report = folder_.report();
  EXPECT_GT(report["examples"], 0);
  EXPECT_EQ(report["workers_lost"], 0);
  EXPECT_EQ(counted(), report["examples"]);
}

// By embers workers, which hold several leases each; and one that was killed in the middle.
TEST_F(Steered, IsSavedInTheMiddleAndGoesOnAndSoDoesAJobThatBeginsThere) {
  for (const std::string mode : {"async", "bounded", "sync"}) {
    const Words words =
        set({"training.mode=" + mode, "training.grads_to_wait=3", "training.staleness_bound=4"});
    start(8, 2, 3, words);
    ASSERT_TRUE(cluster_->is_training());
    cluster_->workers[2]->signal(SIGKILL);
    const std::string saved = folder_.path("saved." + mode);
    steer({"checkpoint", "--out", saved});
    EXPECT_TRUE(folder_.output().starts_with("the job 'job.toml' is saved to " + saved)) << folder_.output();
    EXPECT_TRUE(wait_until([&] { return cluster_->master->has_printed("saved to " + saved); }))
        << cluster_->master->output();
    expect_fails(Words{"checkpoint", "--out", folder_.path("train.csv")} + at_master(), {"train.csv"});
    cluster_->workers[2]->wait();
    cluster_->workers.pop_back();
    cluster_->expect_success();
    EXPECT_EQ(folder_.report()["examples"], 8 * JobFolder::kRecords);
    EXPECT_EQ(counted(), 8 * JobFolder::kRecords);
    const std::string rows = folder_.read("rows");
    const std::string next =
        folder_.train(job_ + set({"storage.shards=2", "model.sleep_ms=0"}) + Words{"--resume", saved});
    EXPECT_EQ(counted(), 8 * JobFolder::kRecords) << mode;
    EXPECT_LT(folder_.report()["examples"], 8 * JobFolder::kRecords);
    if (mode == "sync") {
      EXPECT_EQ(next, rows);
    }
  }
}

TEST_F(Steered, ALaunchedWorkerThatComesTooLateLeavesAgain) {
  start(1000, 1, 1);
  ASSERT_TRUE(cluster_->is_training());
  {
    const Variable label("EMBERS_LABEL", "w2");
    EXPECT_EQ(cluster_->add_worker().wait(20), 0) << cluster_->workers.back()->output();
  }
  EXPECT_TRUE(cluster_->master->has_printed("worker 1 (w2, pid ")) << cluster_->master->output();
  expect_workers(1, 1);
  cluster_->add_worker();  // by hand
  expect_workers(2, 2);
  steer({"stop", "--no-save"});
  cluster_->expect_success();
}

TEST_F(Steered, StatusSaysWhatEachMemberDoes) {
  start(1000, 2, 2);
  ASSERT_TRUE(cluster_->is_training());
  json s;
  expect_status(
      [&s](const json& now) {
        s = now;
        return s["phase"] == "training" && s["epoch"] >= 1 && s["minibatches_done"] > 10 &&
               s["examples_per_s"] > 0 && s["remaining_s"].is_number() &&
               member(s, "worker 1")["pushes_per_s"] > 0 && member(s, "shard 1")["pulls_per_s"] > 0 &&
               member(s, "shard 1")["rows"] > 0 && s["loss"].is_number();
      },
      "something is known of everything");
  EXPECT_EQ(s["job"], "job.toml");
  EXPECT_EQ(s["id"].get<std::string>().size(), 16u);
  EXPECT_EQ(s["task"], "train");
  EXPECT_EQ(s["mode"], "async");
  EXPECT_TRUE(s["error"].is_null() && s["stopping"].is_null());
  EXPECT_EQ(s["minibatches"], 63);
  EXPECT_EQ(s["epochs"], 1000);
  EXPECT_EQ(s["members"].size(), 4u);
  for (const json& m : s["members"]) {
    EXPECT_LT(m["last_sign_s"], 5) << m.dump();
    EXPECT_GT(m["pid"], 1) << m.dump();
    EXPECT_NE(m["state"], "late") << m.dump();
  }
  EXPECT_GT(member(s, "shard 0")["bytes"], 0);
  // Between two epochs it says that it scores the last one.
  EXPECT_TRUE(wait_until([&] {
    EXPECT_EQ(folder_.run(Words{"status"} + at_master()), 0);
    return folder_.output().find("job.toml (async)  training") != std::string::npos;
  }));
  for (const char* part :
       {"epoch ", " of 1000: ", "2 of 2 workers", "MEMBER", "worker 1", "shard 1", "LAST SIGN"})
    EXPECT_NE(folder_.output().find(part), std::string::npos) << part << " in " << folder_.output();
  steer({"stop", "--no-save"});
  cluster_->expect_success();
}

TEST_F(Steered, StopSavesUnlessToldNotTo) {
  for (const bool save : {true, false}) {
    const std::string output = folder_.path(save ? "saved" : "not_saved");
    start(1000, 1, 1, {"--output", output});
    ASSERT_TRUE(cluster_->is_training());
    steer(save ? Words{"stop"} : Words{"stop", "--no-save", "--json"});
    if (save) {
      EXPECT_EQ(folder_.output(), "the job 'job.toml' finishes what is under way, saves and ends\n");
    } else {
      EXPECT_EQ(json::parse(folder_.output())["job"], "job.toml");
    }
    cluster_->expect_success();
    EXPECT_EQ(std::filesystem::exists(output + "/manifest.json"), save);
    EXPECT_EQ(folder_.report()["stopped_by"], save ? "embers stop" : "embers stop --no-save");
  }
}

TEST_F(Steered, TheEnvironmentSaysWhereTheMasterIs) {
  const std::string dir = folder_.path("dir");
  const Words job = folder_.probe("slow") + set({"model.sleep_ms=20", "training.epochs=1000"});
  const auto master = folder_.start(
      Words{"master", folder_.job(), "--job-dir", dir, "--listen", "127.0.0.1:0", "--workers", "1"} + job);
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(dir + "/address"); }));
  const std::string address = read_file(dir + "/address");
  const std::string where = address.substr(0, address.find('\n'));
  std::unique_ptr<Process> shard, worker;
  {
    const Variable variable("EMBERS_JOB_DIR", dir);
    shard = folder_.start({"shard"});
    {
      const Variable also("EMBERS_MASTER", where);
      worker = folder_.start({"worker"});
      EXPECT_EQ(folder_.run({"status"}), 0) << folder_.output();
    }
    EXPECT_EQ(folder_.run({"status"}), 0) << folder_.output();
    // What is given counts more, and nothing is then taken from there.
    expect_fails({"status", "--master", where}, {"asks for its secret"});
    expect_fails({"status", "--job-dir", folder_.path("elsewhere")}, {"elsewhere"});
  }
  {
    const Variable variable("EMBERS_MASTER", where);
    expect_fails({"scale", "--workers", "2"}, {"asks for its secret"});
    EXPECT_EQ(folder_.run({"scale", "--workers", "2", "--secret-file", dir + "/secret"}), 0)
        << folder_.output();
  }
  expect_fails({"status"}, {"where is the master?", "EMBERS_JOB_DIR"});
  EXPECT_TRUE(wait_until([&] {
    return folder_.run({"status", "--job-dir", dir, "--json"}) == 0 &&
           json::parse(folder_.output())["phase"] == "training";
  })) << folder_.output();
  EXPECT_EQ(folder_.run({"stop", "--job-dir", dir}), 0) << folder_.output();
  for (Process* p : {master.get(), shard.get(), worker.get()}) EXPECT_EQ(p->wait(), 0) << p->output();
  expect_fails({"status", "--job-dir", dir}, {"no master has written", "is it running"});
}

TEST_F(Steered, OnlyByThoseWhoKnowTheSecret) {
  const std::string dir = folder_.path("dir"), other = folder_.path("other");
  const Words job = folder_.probe("slow") + set({"model.sleep_ms=20", "training.epochs=1000"});
  const auto start_master = [&](const std::string& in) {
    auto master = folder_.start(
        Words{"master", folder_.job(), "--job-dir", in, "--listen", "127.0.0.1:0", "--workers", "1"} + job);
    EXPECT_TRUE(wait_until([&] { return std::filesystem::exists(in + "/address"); })) << master->output();
    return master;
  };
  const auto ours = start_master(dir), theirs = start_master(other);
  // Our directory's address is now that of another job's master.
  folder_.write("address", read_file(other + "/address"));
  std::filesystem::rename(dir + "/address", folder_.path("kept"));
  std::filesystem::rename(folder_.path("address"), dir + "/address");
  expect_fails({"stop", "--job-dir", dir}, {"wrong secret", "--job-dir"});
  std::filesystem::rename(folder_.path("kept"), dir + "/address");
  expect_fails({"stop", "--job-dir", dir, "--insecure"}, {"asks for its secret"});
  for (const auto& [in, master] : {std::pair(dir, ours.get()), std::pair(other, theirs.get())}) {
    EXPECT_EQ(master->wait(0), -1) << "it goes on";
    EXPECT_EQ(folder_.run({"stop", "--job-dir", in}), 0) << folder_.output();
    EXPECT_EQ(master->wait(20), 0) << master->output();
  }
}

TEST_F(Steered, WhatCannotBeDoneIsSaidAndChangesNothing) {
  start(1000, 1, 2);
  ASSERT_TRUE(cluster_->is_training());
  const Words at = at_master();
  expect_fails(Words{"scale", "--workers", "0"} + at, {"--workers"});
  expect_fails(Words{"scale", "--workers", "-1"} + at, {"--workers"});
  expect_fails(Words{"scale"} + at, {"--workers is required"});
  expect_fails(Words{"drain"} + at, {"NAME is required"});
  expect_fails(Words{"drain", "worker-7"} + at, {"there is no worker 'worker-7'", "worker 0, worker 1"});
  expect_fails(Words{"drain", "shard 0"} + at, {"shard 0 cannot be drained"});
  expect_fails(Words{"drain", "0", "1"} + at, {"no worker would be wanted any more"});
  expect_fails(Words{"status", "extra"} + at, {"extra"});
  expect_fails({"status", "--master", "127.0.0.1:9"}, {"127.0.0.1:9"});
  expect_fails({"status", "--master", "nonsense"}, {"HOST:PORT"});
  expect_fails(Words{"status", "--job-dir", folder_.path("dir")} + at, {"excludes"});
  expect_workers(2, 2);
  cluster_->shards[0]->signal(SIGKILL);
  EXPECT_EQ(cluster_->master->wait(20), 1);
  for (const auto& worker : cluster_->workers) EXPECT_EQ(worker->wait(20), 1);
}

// Whatever a command was about to ask, it hears that the job has ended, or that nobody is there any more.
TEST_F(Steered, AJobMayEndWhileItIsAsked) {
  start(4, 1, 2);
  ASSERT_TRUE(cluster_->is_training());
  int asked = 0;
  while (cluster_->master->wait(0) == -1) {
    const int status = folder_.run(Words{"status", "--json"} + at_master());
    if (status == 0) {
      ++asked;
      EXPECT_TRUE(json::parse(folder_.output()).contains("phase"));
    } else {
      EXPECT_TRUE(status == 1 || status == 2) << status;
      const std::string& said = folder_.output();
      EXPECT_TRUE(said.find(cluster_->address) != said.npos || said.find("has ended") != said.npos) << said;
    }
  }
  EXPECT_GT(asked, 0);
  cluster_->expect_success();
  expect_fails(Words{"stop"} + at_master(), {cluster_->address});
}

TEST_F(Steered, AStopMayComeTwice) {
  start(1000, 1, 1);
  ASSERT_TRUE(cluster_->is_training());
  const auto first = folder_.start(Words{"stop"} + at_master()),
             second = folder_.start(Words{"stop"} + at_master());
  EXPECT_EQ(first->wait(20), 0) << first->output();
  const int late = second->wait(20);  // the job may have ended before it reached the master
  EXPECT_TRUE(late == 0 || second->has_printed(cluster_->address)) << second->output();
  cluster_->expect_success();
}

}  // namespace
}  // namespace embers::testing_support
