// Where members go in a Slurm allocation, and what is submitted.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "apps/launch/slurm/commands/commands.h"
#include "apps/launch/slurm/commands/steps.h"
#include "apps/launch/slurm/places.h"
#include "apps/launch/slurm/starter.h"
#include "apps/launch/slurm/submit.h"
#include "base/host.h"
#include "tests/support/expect_error.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace embers::launch {
namespace {

const Member kMaster{Kind::kMaster};
Member shard(uint32_t number) { return {Kind::kShard, number}; }
Member worker(uint32_t number) { return {Kind::kWorker, number}; }

TEST(SlurmPlaces, TheMasterIsOnTheFirstNodeAndOthersSpread) {
  SlurmPlaces places({{"a", 2}, {"b", 2}, {"c", 2}}, 1);
  EXPECT_EQ(places.take(kMaster), "a");
  EXPECT_EQ(places.take(shard(0)), "b");
  EXPECT_EQ(places.take(worker(0)), "c");
  std::vector<std::string> rest;
  for (uint32_t i = 1; i <= 3; ++i) rest.push_back(places.take(worker(i)).value_or("none"));
  EXPECT_EQ(rest, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(places.take(worker(4)), std::nullopt);
}

TEST(SlurmPlaces, WhereAsManyCoresAreFreeTheEmptierNodeIsTaken) {
  SlurmPlaces places({{"a", 3}, {"b", 3}, {"c", 2}}, 1);
  EXPECT_EQ(places.take(kMaster), "a");
  EXPECT_EQ(places.take(shard(0)), "b");
  EXPECT_EQ(places.take(worker(0)), "c");
}

TEST(SlurmPlaces, AWorkerFindsNoPlaceWhereItsCoresAreTaken) {
  SlurmPlaces places({{"a", 4}, {"b", 4}}, 3);
  places.take(kMaster);
  EXPECT_EQ(places.take(worker(0)), "b");
  EXPECT_EQ(places.take(worker(1)), "a");
  EXPECT_EQ(places.take(worker(2)), std::nullopt);
  places.give_back(worker(0));
  EXPECT_EQ(places.take(worker(2)), "b");
}

TEST(SlurmPlaces, AsManyTasksAsAreAskedForHoldAllMembers) {
  for (uint32_t cores = 1; cores <= 5; ++cores)
    for (uint32_t shards = 1; shards <= 6; ++shards)
      for (uint32_t workers = 1; workers <= 6; ++workers)
        for (const bool together : {true, false}) {
          const uint32_t tasks = tasks_for(shards, workers, cores);
          std::vector<SlurmPlaces::Node> nodes{{"all", tasks * cores}};
          if (!together) nodes.assign(tasks, {"one", cores});
          SlurmPlaces places(nodes, cores);
          places.take(kMaster);
          for (uint32_t i = 0; i < shards; ++i) EXPECT_TRUE(places.take(shard(i)));
          for (uint32_t i = 0; i < workers; ++i)
            EXPECT_TRUE(places.take(worker(i)))
                << cores << " cores, " << shards << " shards, " << workers << " workers";
        }
}

TEST(SlurmPlaces, ShardsShareCoresWhereNoneAreLeft) {
  SlurmPlaces places({{"a", 1}}, 1);
  places.take(kMaster);
  EXPECT_EQ(places.take(shard(0)), "a");
  EXPECT_EQ(places.take(worker(0)), std::nullopt);
}

TEST(SlurmPlaces, WhereAMemberWasLostOthersGoOnlyIfThereIsNoOtherRoom) {
  SlurmPlaces places({{"a", 2}, {"b", 8}}, 1);
  places.take(kMaster);
  EXPECT_EQ(places.take(worker(0)), "b");
  places.avoid("b");
  places.give_back(worker(0));
  EXPECT_EQ(places.take(worker(0)), "a");
  EXPECT_EQ(places.take(worker(1)), "b");
}

TEST(SlurmPlaces, AShardComesBackToItsNodeWhereItsJournalMayBe) {
  SlurmPlaces places({{"a", 2}, {"b", 4}, {"c", 8}}, 1);
  places.take(kMaster);
  const std::string home = *places.take(shard(0));
  places.avoid(home);
  places.give_back(shard(0));
  EXPECT_EQ(places.take(shard(0)), home);
  places.give_back(shard(0));
  places.keep_only({"a", "b"});
  EXPECT_EQ(home, "c");
  EXPECT_EQ(places.take(shard(0)), "b") << "that node is gone";
  places.give_back(shard(0));
  places.keep_only({"a", "b", "c"});
  EXPECT_EQ(places.take(shard(0)), "b") << "what it has written since is there";
}

TEST(SlurmSteps, AreKnownByTheSrunThatStartedThem) {
  const std::string said =
      "StepId=7.batch UserId=0 State=RUNNING Name=batch SrunHost:Pid=(null):0\n"
      "StepId=7.0 UserId=0 StartTime=2026-01-01T00:00:00 State=RUNNING Name=master SrunHost:Pid=login:100 "
      "TRES=x\n"
      "StepId=7.1 UserId=0 State=RUNNING Name=s0 SrunHost:Pid=login.cluster:101\n"
      "StepId=7.2 UserId=0 State=RUNNING Name=w0 SrunHost:Pid=other:101\n"
      "nonsense SrunHost:Pid= StepId=\n";
  using Steps = std::vector<std::string>;
  EXPECT_EQ(steps_started_by({100, 101}, "login.cluster.org", said), (Steps{"7.0", "7.1"}));
  EXPECT_EQ(steps_started_by({101}, "other", said), Steps{"7.2"});
  EXPECT_EQ(steps_started_by({}, "login", said), Steps());
  EXPECT_EQ(steps_started_by({100}, "login", "No job steps in the system\n"), Steps());
}

// Slurm's commands as scripts of one line, first in PATH.
class Commands {
 public:
  Commands() { setenv("PATH", (dir_.path().string() + ":" + path_).c_str(), 1); }
  ~Commands() { setenv("PATH", path_.c_str(), 1); }
  void add(const std::string& name, const std::string& script) const {
    std::ofstream(dir_ / name) << "#!/bin/sh\n" << script << '\n';
    std::filesystem::permissions(dir_ / name, std::filesystem::perms::owner_all);
  }
  std::string file(const std::string& name) const { return dir_ / name; }

 private:
  const testing_support::TempDir dir_;
  const std::string path_ = std::getenv("PATH");
};

constexpr std::chrono::milliseconds kSoon(50);

TEST(SlurmSteps, ThatScancelDoesNotEndInTimeAreNamed) {
  const Commands commands;
  commands.add("scancel", "exec sleep 1000");
  testing_support::expect_error(ErrorCode::kTimeout,
                                {"scancel did not answer within 0.05 s", "job 7 may still run: 7.0, 7.2.",
                                 "'scancel --signal=KILL 7.0 7.2'", "'scancel 7'"},
                                [] {
                                  cancel("7", {"7.0", "7.2"}, kSoon);
                                });
}

TEST(SlurmSteps, ThatCannotBeListedInTimeAreNamedByTheirSruns) {
  const Commands commands;
  commands.add("scontrol", "exec sleep 1000");
  commands.add("scancel", "touch " + commands.file("cancelled"));
  testing_support::expect_error(ErrorCode::kTimeout,
                                {"scontrol did not answer within 0.05 s", "process 100, 101 of ",
                                 "'scontrol show steps 7'", "'scancel 7'"},
                                [] {
                                  cancel_steps("7", {100, 101}, kSoon);
                                });
  EXPECT_FALSE(std::filesystem::exists(commands.file("cancelled")));
}

TEST(SlurmSteps, OfTheseSrunsAreCancelled) {
  const Commands commands;
  commands.add("scontrol", "echo StepId=7.1 SrunHost:Pid=" + host_name() +
                               ":101; echo StepId=7.2 SrunHost:Pid=" + host_name() + ":102");
  commands.add("scancel", "echo \"$@\" >> " + commands.file("said"));
  cancel_steps("7", {101});
  cancel_steps("7", {103});  // has no step: nothing is cancelled
  cancel_steps("7", {});
  std::ifstream said(commands.file("said"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(said), {}), "--quiet --signal=KILL 7.1\n");
}

TEST(SlurmPlaces, NobodyIsSentToANodeThatFailed) {
  SlurmPlaces places({{"a", 2}, {"b", 8}}, 1);
  places.take(kMaster);
  EXPECT_EQ(places.take(worker(0)), "b");
  places.keep_only({"a"});
  places.give_back(worker(0));
  EXPECT_EQ(places.take(worker(0)), "a");
  EXPECT_EQ(places.take(worker(1)), std::nullopt);
}

TEST(CpusPerNode, IsReadAsSlurmWritesIt) {
  EXPECT_EQ(parse_cpus_per_node("4"), (std::vector<uint32_t>{4}));
  EXPECT_EQ(parse_cpus_per_node("4(x2),3"), (std::vector<uint32_t>{4, 4, 3}));
  for (const char* const wrong : {"", "x", "4(x2", "4(2)", "0", "4,", "4 "})
    testing_support::expect_error(ErrorCode::kInvalid, {"SLURM_JOB_CPUS_PER_NODE", "not what Slurm sets"},
                                  [&] { parse_cpus_per_node(wrong); });
}

Plan plan() {
  Plan plan;
  plan.name = "census";
  plan.shards = 2;
  plan.workers = 3;
  plan.job_dir = "/shared/job";
  plan.program = "/opt/embers";
  plan.options.scheduler = {true, "main", "", "1:00:00", 4, 2, 0, {"--exclusive"}, false};
  plan.options.words = {"census.toml", "--scheduler", "slurm"};
  return plan;
}

TEST(Submission, AsksForTheCoresOfAllMembersAndCallsTheLauncherAgain) {
  EXPECT_EQ(
      submission(plan(), "script"),
      (Words{"sbatch", "--parsable", "--job-name=census", "--ntasks=5", "--cpus-per-task=2", "--nodes=4",
             "--partition=main", "--time=1:00:00", "--exclusive", "--output=/shared/job/logs/slurm-%j.log",
             "--export=ALL", "script", "census.toml", "--scheduler", "slurm"}));
}

TEST(Submission, OfADryRunIsThatOfARealOne) {
  Plan dry = plan();
  dry.options.words = {"--dry-run", "census.toml", "--", "mine", "--dry-run"};
  const Words words = submission(dry, "script");
  EXPECT_EQ(Words(words.end() - 5, words.end()), (Words{"script", "census.toml", "--", "mine", "--dry-run"}));
}

TEST(Submission, APercentSignInAPathIsOne) {
  Plan odd = plan();
  odd.job_dir = "/shared/100%j";
  const Words words = submission(odd, "script");
  EXPECT_NE(std::find(words.begin(), words.end(), "--output=/shared/100%%j/logs/slurm-%j.log"), words.end());
}

TEST(Submission, MayAskForMoreRoom) {
  Plan wide = plan();
  wide.options.scheduler.room = 10;
  EXPECT_EQ(submission(wide, "script").at(3), "--ntasks=12");
  wide.options.scheduler.room = 1;  // less than the workers to begin with
  EXPECT_EQ(submission(wide, "script").at(3), "--ntasks=5");
}

TEST(JobOfItsOwn, HasTheNameOfTheJobAndItsNumber) {
  Order order;
  order.member = worker(7);
  order.words = {"/opt/embers", "worker", "--job-dir", "/shared/my job"};
  order.log = "/shared/my job/logs/w7.log";
  EXPECT_EQ(job_words(order, {{"12", "node1", "/home"}, "census", {}}, plan().options.scheduler, "a1b2"),
            (Words{"sbatch", "--wait", "--parsable", "--job-name=census", "--ntasks=1", "--cpus-per-task=2",
                   "--partition=main", "--time=1:00:00", "--exclusive", "--comment=embers 12 a1b2",
                   "--no-requeue", "--open-mode=append", "--output=/shared/my job/logs/w7.log",
                   "--export=ALL", "--wrap=exec /opt/embers worker --job-dir '/shared/my job'"}));
}

TEST(JobOfItsOwn, IsWithoutWhatIsSaidOfTheWholeAllocation) {
  SchedulerOptions options = plan().options.scheduler;
  options.sbatch = {
      "--signal=B:USR1@300", "--nodes=3", "--ntasks-per-node=2",    "--mem=2G",    "-N3",
      "--nodelist=a,b",      "--hold",    "--dependency=singleton", "--array=1-3", "--exclusive"};
  EXPECT_EQ(place_words_of_one(options),
            (Words{"--partition=main", "--time=1:00:00", "--mem=2G", "--exclusive"}));
  EXPECT_EQ(place_words(options).size(), 12u);
}

TEST(FurtherJobs, OfThisAllocationOnlyAreCancelled) {
  testing_support::TempDir dir;
  const auto command = [&](const std::string& name, const std::string& script) {
    std::ofstream(dir / name) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(dir / name, std::filesystem::perms::owner_all);
  };
  command("squeue", "printf '8 embers 7 a\\n9 embers 70 a\\n10 (null)\\n11 embers 7 a\\n12 embers 7 b\\n'");
  command("scancel", "echo \"$@\" > " + (dir / "cancelled"));
  const std::string path = std::getenv("PATH");
  setenv("PATH", ((dir / "") + ":" + path).c_str(), 1);
  cancel_further_jobs("7", "a");
  setenv("PATH", path.c_str(), 1);
  std::string cancelled;
  std::getline(std::ifstream(dir / "cancelled"), cancelled);
  EXPECT_EQ(cancelled, "--quiet 8 11");
}

TEST(RunSlurm, SaysWhatACommandSaid) {
  const SlurmAnswer answer = run_slurm({"sh", "-c", "echo one; echo two; echo wrong >&2; exit 3"});
  EXPECT_EQ(answer.status, 3);
  EXPECT_EQ(answer.lines(), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(answer.first_line(), "one");
  EXPECT_EQ(answer.errors, "wrong\n");
  EXPECT_EQ(run_slurm({"no-such-command-of-slurm"}).status, 127);
}

TEST(SlurmCommand, IsNotWaitedFor) {
  testing_support::TempDir dir;
  const std::string go = dir / "go";
  SlurmCommand command({"sh", "-c", "until [ -e " + go + " ]; do sleep 0.01; done; echo said"});
  EXPECT_FALSE(command.answer());
  std::ofstream(go) << "go";
  std::optional<SlurmAnswer> answer;
  ASSERT_TRUE(testing_support::wait_until([&] { return (answer = command.answer()).has_value(); }));
  EXPECT_EQ(answer->status, 0);
  EXPECT_EQ(answer->first_line(), "said");
}

TEST(SlurmCommand, ThatTakesTooLongIsKilled) {
  SlurmCommand command({"sleep", "1000"}, std::chrono::milliseconds(50));
  const SlurmAnswer answer = command.wait();
  EXPECT_EQ(answer.status, 124);
  EXPECT_EQ(answer.errors, "sleep did not answer in time\n");
}

}  // namespace
}  // namespace embers::launch
