// How members are run: the words of their commands.
#include "apps/launch/members/orders.h"

#include <gtest/gtest.h>

#include <fstream>

#include "apps/launch/members/quoted.h"
#include "apps/launch/processes/ssh_starter.h"
#include "base/errors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers::launch {
namespace {

using testing_support::expect_error;

constexpr char kJob[] = R"([job]
name = "small"
[model]
name = "wide_deep"
[data]
train = "train.csv"
columns = [ {name="color", type="string"}, {name="label", type="label", positive="yes"} ]
[optimizer]
name = "adam"
[training]
workers = 3
[storage]
shards = 2
)";

class OrdersTest : public testing::Test {
 protected:
  OrdersTest() {
    options_.master.job.job = dir_ / "job.toml";
    options_.master.listen.clear();
    write(kJob);
  }
  void write(const std::string& text) { std::ofstream(dir_ / "job.toml") << text; }
  Plan plan() {
    Plan plan = make_plan(options_);
    plan.job_dir = "/jobs/1";
    plan.program = "/bin/embers";
    if (options_.remote_program.empty()) plan.options.remote_program = plan.program;
    return plan;
  }
  std::string words(const Member& member) { return quoted(order_for(plan(), member, "10.0.0.1:77").words); }

  SshOptions ssh() const {
    SshOptions ssh;
    ssh.hosts = options_.hosts;
    ssh.program = "/bin/embers";
    ssh.secret = "hush";
    ssh.shards = 2;
    return ssh;
  }

  testing_support::TempDir dir_;
  LaunchOptions options_;
};

TEST_F(OrdersTest, NumbersComeFromTheJobFileUnlessTheyAreGiven) {
  EXPECT_EQ(plan().shards, 2);
  EXPECT_EQ(plan().workers, 3);
  options_.master.shards = 5;
  options_.master.workers = 7;
  EXPECT_EQ(plan().shards, 5);
  EXPECT_EQ(plan().workers, 7);
  options_.master.workers = 0;
  options_.master.job.set = {"training.workers=4"};
  EXPECT_EQ(plan().workers, 4);
}

TEST_F(OrdersTest, WorkersThatHoldTheRowsNeedNoShards) {
  options_.owner = true;
  EXPECT_EQ(plan().shards, 0);
  EXPECT_EQ(plan().job_shards, 3);
  EXPECT_NE(words({Kind::kMaster}).find("--shards 3 --workers 3"), std::string::npos);
  EXPECT_NE(words({Kind::kWorker}).find(" --owner"), std::string::npos);
  options_.master.shards = 2;
  EXPECT_EQ(plan().job_shards, 2);
  options_.master.shards = 4;
  expect_error(ErrorCode::kInvalid, {"3 workers", "4 shards", "--workers 4"}, [&] { plan(); });
}

TEST_F(OrdersTest, ACommandIsToldByItsEnvironmentThatItHoldsRows) {
  options_.owner = true;
  options_.master.shards = 2;
  options_.master.reached.port_range = "7700-7720";
  options_.command = {"sh", "train.sh"};
  const auto environment = [&](uint32_t worker) {
    return order_for(plan(), {Kind::kWorker, worker}, "127.0.0.1:77").environment;
  };
  EXPECT_EQ(environment(1)["EMBERS_OWNER"], "1");
  EXPECT_EQ(environment(1)["EMBERS_PORT_RANGE"], "7700-7720");
  EXPECT_FALSE(environment(2).contains("EMBERS_OWNER"));  // all shards are there
  options_.owner = false;
  EXPECT_FALSE(environment(1).contains("EMBERS_OWNER"));
}

TEST_F(OrdersTest, AMistakeInTheJobFileIsFoundBeforeAnybodyIsStarted) {
  options_.master.job.set = {"training.wrokers=4"};
  expect_error(ErrorCode::kInvalid, {"wrokers"}, [&] { plan(); });
  options_.master.job.set.clear();
  options_.master.job.job = "/nowhere.toml";
  expect_error(ErrorCode::kInvalid, {"/nowhere.toml"}, [&] { plan(); });
}

TEST_F(OrdersTest, AShardReturnsOnlyToTrainingWithAJournal) {
  EXPECT_FALSE(plan().shards_return);
  options_.master.job.set = {"storage.backend=redis", "storage.journal=" + (dir_ / "journal")};
  EXPECT_TRUE(plan().shards_return);
  options_.master.task = Task::kEvaluate;
  EXPECT_FALSE(plan().shards_return);
}

TEST_F(OrdersTest, TheMasterGetsAllOptionsThatAreMeantForIt) {
  options_.master.job.set = {"training.epochs=2", "data.dir=/my data"};
  options_.master.job.report = "r.json";
  options_.master.job.output = "out";
  options_.master.job.resume = "old";
  options_.master.job.dump_rows = "rows";
  options_.master.job.save_every = 3;
  EXPECT_EQ(
      words({Kind::kMaster}),
      "/bin/embers master " + (dir_ / "job.toml") +
          " --resume old --set training.epochs=2 --set 'data.dir=/my data' --report r.json --output out "
          "--dump-rows rows --save-every 3 --listen 127.0.0.1:0 --job-dir /jobs/1 --shards 2 --workers 3 "
          "--connect-timeout 20");
}

TEST_F(OrdersTest, AMasterThatUsesAModelGetsItAndTheFiles) {
  options_.master.task = Task::kPredict;
  options_.master.job.resume = "trained";
  options_.master.out = "p.csv";
  options_.master.data = {"a.csv", "b.csv"};
  options_.master.listen = {"0.0.0.0:7700", "unix:/run/x"};
  EXPECT_EQ(words({Kind::kMaster}),
            "/bin/embers master " + (dir_ / "job.toml") +
                " --task predict --model trained --out p.csv --listen 0.0.0.0:7700 --listen unix:/run/x "
                "--job-dir /jobs/1 --shards 2 --workers 3 --connect-timeout 20 --data a.csv --data b.csv");
}

TEST_F(OrdersTest, MembersOfThisHostFindTheirMasterInTheJobDirectory) {
  EXPECT_EQ(words({Kind::kShard, 1}), "/bin/embers shard --job-dir /jobs/1 --connect-timeout 20");
  options_.master.access.secret_file = "s";
  EXPECT_EQ(words({Kind::kWorker, 2}),
            "/bin/embers worker --job-dir /jobs/1 --secret-file s --connect-timeout 20");
  const Order order = order_for(plan(), {Kind::kWorker, 2}, "10.0.0.1:77");
  EXPECT_EQ(order.environment, (Environment{{"EMBERS_LABEL", "w2"}}));
  EXPECT_EQ(order.log, "/jobs/1/logs/w2.log");
}

TEST_F(OrdersTest, ACommandRunsAsWorkerAndIsToldEverythingByItsEnvironment) {
  options_.command = {"python3", "train.py", "--lr", "0.1"};
  EXPECT_EQ(words({Kind::kWorker, 0}), "python3 train.py --lr 0.1");
  EXPECT_EQ(order_for(plan(), {Kind::kWorker, 0}, "127.0.0.1:77").environment,
            (Environment{{"EMBERS_JOB_DIR", "/jobs/1"},
                         {"EMBERS_LABEL", "w0"},
                         {"EMBERS_MASTER", "127.0.0.1:77"},
                         {"EMBERS_SECRET_FILE", "/jobs/1/secret"}}));
  EXPECT_EQ(words({Kind::kShard, 0}), "/bin/embers shard --job-dir /jobs/1 --connect-timeout 20");
}

TEST_F(OrdersTest, MembersOnOtherHostsAreToldTheAddress) {
  options_.hosts = {"a", "b"};
  EXPECT_EQ(words({Kind::kShard, 0}), "/bin/embers shard --master 10.0.0.1:77 --connect-timeout 20");
  options_.remote_program = "/opt/embers";
  options_.master.access.secret_file = "/here/secret";  // which is not there
  EXPECT_EQ(words({Kind::kWorker, 0}), "/opt/embers worker --master 10.0.0.1:77 --connect-timeout 20");
  EXPECT_NE(words({Kind::kMaster}).find("--listen 0.0.0.0:0"), std::string::npos);
}

TEST_F(OrdersTest, WhereOthersReachThem) {
  options_.hosts = {"a"};
  options_.master.reached = {"train.example.org", "7700-7720"};
  EXPECT_NE(words({Kind::kMaster}).find("--advertise train.example.org --port-range 7700-7720"),
            std::string::npos);
  EXPECT_NE(words({Kind::kShard, 0}).find("--port-range 7700-7720"), std::string::npos);
  EXPECT_EQ(words({Kind::kShard, 0}).find("--advertise"), std::string::npos);
  EXPECT_EQ(words({Kind::kWorker, 0}).find("--port-range"), std::string::npos);
}

TEST_F(OrdersTest, OtherHostsCannotReachAUnixSocket) {
  options_.hosts = {"a"};
  options_.master.listen = {"unix:/run/x"};
  expect_error(ErrorCode::kInvalid, {"unix:/run/x", "HOST:PORT"}, [&] { plan(); });
}

TEST_F(OrdersTest, MembersGoToTheHostsInTurnAndAWorkerThatFailsMovesOn) {
  options_.hosts = {"a", "b", "c"};
  const SshStarter starter("/bin/true", ssh());
  const auto host = [&](const Member& member) {
    const Words words = starter.words(order_for(plan(), member, "10.0.0.1:77"));
    return words.at(words.size() - 2);
  };
  std::string hosts;
  for (const Member member : {Member{Kind::kShard, 0},
                              {Kind::kShard, 1},
                              {Kind::kWorker, 0},
                              {Kind::kWorker, 1},
                              {Kind::kWorker, 2},
                              {Kind::kWorker, 0, 1},
                              {Kind::kShard, 1, 1}})
    hosts += host(member);
  EXPECT_EQ(hosts, "abcabab");
}

TEST_F(OrdersTest, TheSecretIsNoWordOfAnyProcess) {
  options_.hosts = {"a"};
  options_.command = {"train", "it's"};
  const SshStarter starter("/bin/true", ssh());
  const Words words = starter.words(order_for(plan(), {Kind::kWorker, 0}, "10.0.0.1:77"));
  EXPECT_EQ(quoted(words).find("hush"), std::string::npos);
  EXPECT_EQ(words.back(),
            R"(/bin/embers member --secret EMBERS_LABEL=w0 EMBERS_MASTER=10.0.0.1:77 -- train 'it'\''s')");
}

TEST_F(OrdersTest, WhatIsPrintedCanBeTypedIntoAShell) {
  EXPECT_EQ(quoted(Words{"a b", "", "c", "$x"}), "'a b' '' c '$x'");
  const Order order = order_for(plan(), {Kind::kWorker, 0}, "");
  EXPECT_EQ(command_line(order, order.words),
            "EMBERS_LABEL=w0 /bin/embers worker --job-dir /jobs/1 --connect-timeout 20");
}

}  // namespace
}  // namespace embers::launch
