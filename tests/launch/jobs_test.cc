// Whole jobs by `embers launch`, on this host: what it starts, and that nothing of it is left.
#include <csignal>

#include "tests/launch/launcher.h"
#include "tests/support/servers.h"

namespace embers::testing_support {
namespace {

TEST(Launch, RunsAJobAndShowsItsResult) {
  JobFolder folder;
  Launcher launcher(folder, kTwoByTwo);
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
  for (const char* text : {"\n2000 examples in ", "master | ", "s1     | ", "w0     | "})
    EXPECT_TRUE(launcher.process().has_printed(text)) << text << " in " << launcher.output();
  for (const char* label : {"master", "s0", "s1", "w0", "w1"}) EXPECT_NE(launcher.log(label), "") << label;
  EXPECT_EQ(launcher.log("master").find(" examples in "), std::string::npos);
  // Results come last, whole.
  const std::string output = launcher.output();
  EXPECT_EQ(output.find(" | ", output.find("\n2000 examples in ")), std::string::npos) << output;
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, WorkersHoldTheRowsThemselves) {
  JobFolder folder;
  Launcher launcher(folder, Words{"--owner", "--workers", "2"});
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
  EXPECT_EQ(launcher.log("s0"), "");
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, WithoutAJobDirectoryNothingIsLeftOnTheDiskAfterAGoodEnd) {
  JobFolder folder;
  std::filesystem::create_directory(folder.path("tmp"));
  setenv("TMPDIR", folder.path("tmp").c_str(), 1);
  EXPECT_EQ(folder.run({"launch", folder.job()}), 0) << folder.output();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("tmp")));
  EXPECT_EQ(folder.run(Words{"launch", folder.job()} + set({"model.name=nonsense"})), 2);
  unsetenv("TMPDIR");
  EXPECT_NE(folder.output().find("the logs are in " + folder.path("tmp")), std::string::npos)
      << folder.output();
  EXPECT_FALSE(std::filesystem::is_empty(folder.path("tmp")));
}

// Its number of workers changes as its master wants; that they all come in time is for an endless job to
// show.
TEST(Launch, ReachesTheAccuracyOfCensusWhileItIsScaled) {
  SKIP_WITHOUT_CENSUS();
  JobFolder folder;
  const std::string job_dir = folder.path("job");
  Process process(
      {path_of(EMBERS_COMMAND), "launch", path_of(EMBERS_CENSUS_JOB), "--shards", "2", "--workers", "2",
       "--job-dir", job_dir, "--report", folder.path("out.json"), "--set", "data.dir=" + census_dir(),
       // As much learning as the file has, in more and smaller steps: there is time to scale.
       "--set", "training.epochs=24", "--set", "training.batch_size=32", "--set",
       "optimizer.learning_rate=0.0001"},
      folder.path("log"));
  const auto workers = [&](const char* which) -> int64_t {
    if (folder.run({"status", "--job-dir", job_dir, "--json"}) != 0) return -1;
    return nlohmann::json::parse(folder.output())["workers"][which];
  };
  ASSERT_TRUE(wait_until([&] { return workers("joined") == 2; }, 60)) << process.output();
  EXPECT_EQ(folder.run({"scale", "--job-dir", job_dir, "--workers", "4"}), 0) << folder.output();
  EXPECT_EQ(workers("wanted"), 4) << process.output();
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_GE(folder.report()["accuracy"], 0.868);
  EXPECT_EQ(folder.report()["examples"], 24 * 32561);
}

TEST(Launch, AJobThatIsStoppedBeforeItBeganDoesNotWaitForThoseThatNeverJoined) {
  JobFolder folder;
  Launcher launcher(folder, Words{"--shards", "1", "--workers", "1", "--connect-timeout", "600", "--", "sh",
                                  "-c", "sleep 1000"});
  EXPECT_TRUE(launcher.becomes([](const Status& s) { return s.shards.joined == 1; })) << launcher.output();
  launcher.process().signal(SIGINT);
  EXPECT_EQ(launcher.process().wait(20), 0) << launcher.output();
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, FollowsTheNumberOfWorkersThatIsWanted) {
  JobFolder folder;
  Launcher launcher(folder, Words{"--shards", "1", "--workers", "1"} + endless(folder));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  launcher.scale(3);
  EXPECT_TRUE(launcher.becomes([](const Status& s) { return Launcher::working(s) == 3; }))
      << launcher.output();
  const pid_t first = launcher.pid("w0"), last = launcher.pid("w2");
  launcher.scale(1);
  EXPECT_TRUE(launcher.becomes([](const Status& s) { return s.workers.joined == 1; })) << launcher.output();
  EXPECT_TRUE(wait_until([&] { return !runs(last); })) << launcher.output();
  EXPECT_TRUE(runs(first));
  // Nobody takes the place of those that were drained.
  const auto begin = launcher.status().elapsed_s;
  EXPECT_TRUE(launcher.becomes([&](const Status& s) { return s.elapsed_s > begin + 3; }));
  EXPECT_EQ(launcher.status().workers.joined, 1);
  EXPECT_EQ(launcher.status().workers.lost, 0);
  EXPECT_FALSE(launcher.process().has_printed("again")) << launcher.output();
}

TEST(Launch, AWorkerThatIsKilledIsStartedAgainAndEachRecordCountsOnce) {
  JobFolder folder;
  Launcher launcher(folder, kTwoByTwo + counting(folder, 6) + Words{"--dump-rows", folder.path("rows")});
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  const pid_t first = launcher.pid("w1");
  ::kill(first, SIGKILL);
  EXPECT_TRUE(launcher.becomes([&](const Status&) {
    const auto again = launcher.member("w1");
    return again && static_cast<pid_t>(again->pid) != first;
  })) << launcher.output();
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("w1 ended: signal 9 (Killed)")) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("starting w1 again")) << launcher.output();
  expect_each_record_counted_once(folder, 6);
  EXPECT_EQ(folder.report()["workers_lost"], 1);
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, AShardOfAJobWithAJournalThatIsKilledComesBack) {
  JobFolder folder;
  const ServerProcess server = ServerProcess::redis();
  Launcher launcher(folder, kTwoByTwo + counting(folder, 6) + Words{"--dump-rows", folder.path("rows")} +
                                set({"storage.backend=redis", "storage.servers=" + server.address(),
                                     "storage.journal=" + folder.path("journal")}));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  ::kill(launcher.pid("s1"), SIGKILL);
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("starting s1 again")) << launcher.output();
  expect_each_record_counted_once(folder, 6);
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, WithoutAJournalTheLossOfAShardEndsTheJob) {
  JobFolder folder;
  Launcher launcher(folder, kTwoByTwo + endless(folder));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  ::kill(launcher.pid("s1"), SIGKILL);
  EXPECT_EQ(launcher.process().wait(), 1) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("lost shard")) << launcher.output();
  EXPECT_FALSE(launcher.process().has_printed("again")) << launcher.output();
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, AShardThatIsKilledBeforeTheJobHasBegunIsStartedAgain) {
  JobFolder folder;
  const std::string script = "until [ -e " + folder.path("go") + " ]; do sleep 0.1; done; exec " +
                             path_of(EMBERS_COMMAND) + " worker";
  Launcher launcher(folder, kTwoByTwo + Words{"--", "sh", "-c", script});
  ASSERT_TRUE(launcher.becomes([](const Status& s) { return s.shards.joined == 2; })) << launcher.output();
  ::kill(launcher.pid("s1"), SIGKILL);
  EXPECT_TRUE(wait_until([&] { return launcher.process().has_printed("starting s1 again"); }, 20))
      << launcher.output();
  folder.write("go", "");
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, WithoutAJournalTheLossOfAWorkersRowsEndsTheJob) {
  JobFolder folder;
  Launcher launcher(folder, Words{"--owner", "--workers", "2"} + endless(folder));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  ::kill(launcher.pid("w1"), SIGKILL);
  EXPECT_EQ(launcher.process().wait(), 1) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("lost shard")) << launcher.output();
  EXPECT_FALSE(launcher.process().has_printed("again")) << launcher.output();
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, OneInterruptSavesAndEndsTheJob) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    JobFolder folder;
    Launcher launcher(folder, kTwoByTwo + endless(folder) + Words{"--output", folder.path("saved")});
    ASSERT_TRUE(launcher.trains()) << launcher.output();
    launcher.process().signal(signal);
    EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
    EXPECT_TRUE(std::filesystem::exists(folder.path("saved"))) << launcher.output();
    EXPECT_EQ(folder.run({"evaluate", folder.job(), "--model", folder.path("saved"), "--set",
                          "model.library=" + path_of(EMBERS_PROBE_MODEL), "--set", "model.name=count"}),
              0)
        << folder.output();
    EXPECT_TRUE(launcher.leaves_nothing());
  }
}

TEST(Launch, ASecondInterruptEndsEverythingAtOnce) {
  JobFolder folder;
  // A worker that does not end while it is asked to.
  Launcher launcher(folder, kTwoByTwo + endless(folder) +
                                set({"model.hang_file=" + folder.path("hang"), "job.lease_timeout=600"}));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  folder.write("hang", std::to_string(launcher.pid("w0")));
  launcher.process().signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return launcher.process().has_printed("SIGINT: the master saves"); }));
  EXPECT_EQ(launcher.process().wait(1), -1) << launcher.output();
  launcher.process().signal(SIGINT);
  EXPECT_EQ(launcher.process().wait(), 130) << launcher.output();
  EXPECT_TRUE(launcher.leaves_nothing(0));
}

TEST(Launch, NothingIsLeftWhenItIsKilled) {
  JobFolder folder;
  Launcher launcher(folder, kTwoByTwo + endless(folder));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  EXPECT_GE(launcher.processes().size(), 7u);  // itself, its guard, and five members
  launcher.process().signal(SIGKILL);
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, NothingIsLeftWhenItsGuardIsKilledAndThenItself) {
  JobFolder folder;
  Launcher launcher(folder, kTwoByTwo + endless(folder));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  const pid_t guard = launcher.guard();
  ASSERT_GT(guard, 0);
  ::kill(guard, SIGKILL);
  EXPECT_TRUE(wait_until([&] { return launcher.guard() > 0 && launcher.guard() != guard; }))
      << launcher.output();
  EXPECT_TRUE(wait_until([&] { return launcher.process().has_printed("another one takes its place"); }))
      << launcher.output();
  EXPECT_TRUE(launcher.trains()) << launcher.output();
  launcher.process().signal(SIGKILL);
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, WhenTheMasterIsKilledEverybodyEndsAndItsStatusIsTheJobs) {
  JobFolder folder;
  Launcher launcher(folder, kTwoByTwo + endless(folder));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  for (const pid_t pid : launcher.processes())
    if (read_file("/proc/" + std::to_string(pid) + "/cmdline").find(std::string("\0master\0", 8)) !=
        std::string::npos)
      ::kill(pid, SIGKILL);
  EXPECT_EQ(launcher.process().wait(), 137) << launcher.output();
  EXPECT_TRUE(launcher.leaves_nothing());
}

// --- a command as worker -----------------------------------------------------------------------

TEST(Launch, ACommandRunsAsWorkerAndFindsItsJobInTheEnvironment) {
  JobFolder folder;
  const std::string script = "echo \"label $EMBERS_LABEL master $EMBERS_MASTER\"; " +
                             path_of(EMBERS_COMMAND) + " worker; echo over $?";
  Launcher launcher(folder, kTwoByTwo + Words{"--", "sh", "-c", script});
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
  EXPECT_NE(launcher.log("w1").find("label w1 master 127.0.0.1:"), std::string::npos) << launcher.log("w1");
  EXPECT_NE(launcher.log("w1").find("over 0"), std::string::npos) << launcher.log("w1");
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, NothingIsLeftOfACommandEitherHoweverDeepItsProcessesAre) {
  JobFolder folder;
  const std::string script = "sleep 1000 & (setsid sleep 1000 &) ; " + path_of(EMBERS_COMMAND) + " worker";
  Launcher launcher(folder, kTwoByTwo + endless(folder) + Words{"--", "sh", "-c", script});
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  EXPECT_GE(launcher.processes().size(), 7u + 2 * 3);
  launcher.process().signal(SIGKILL);
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, ACommandThatNeverWorksIsGivenUpOnAndSaysWhy) {
  JobFolder folder;
  Launcher launcher(folder, Words{"--max-restarts", "1", "--shards", "1", "--workers", "2", "--", "sh", "-c",
                                  "echo nothing to read on $EMBERS_LABEL; exit 2"});
  EXPECT_EQ(launcher.process().wait(), 2) << launcher.output();
  for (const char* text : {"gave up on w", "started 2 times", "status 2", "logs/w", "  nothing to read on w",
                           "the job cannot go on"})
    EXPECT_TRUE(launcher.process().has_printed(text)) << text << " in " << launcher.output();
  EXPECT_TRUE(launcher.leaves_nothing());
}

// Only found when it is started: a script whose interpreter is missing.
TEST(Launch, AProgramThatCannotBeStartedIsNamed) {
  JobFolder folder;
  const std::string script = folder.path("script");
  folder.write("script", "#!/no/such/interpreter\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Launcher launcher(folder, Words{"--max-restarts", "0", "--", script});
  EXPECT_EQ(launcher.process().wait(), 1) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("cannot start '" + script)) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("which was started once and got nothing done"))
      << launcher.output();
}

// systemd and others signal all processes of a service at once.
TEST(Launch, ASignalToTheMasterAsWellSavesAllTheSame) {
  JobFolder folder;
  // Minibatches take a second, so that the master is still finishing when the launcher is told, too.
  Launcher launcher(folder,
                    kTwoByTwo + counting(folder, 1'000'000, 1000) + Words{"--output", folder.path("saved")});
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  for (const pid_t pid : launcher.processes())
    if (read_file("/proc/" + std::to_string(pid) + "/cmdline").find(std::string("\0master\0", 8)) !=
        std::string::npos)
      ::kill(pid, SIGTERM);
  ASSERT_TRUE(wait_until([&] { return launcher.process().has_printed("SIGTERM: finishing"); }));
  launcher.process().signal(SIGTERM);
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
  EXPECT_TRUE(std::filesystem::exists(folder.path("saved/manifest.json"))) << launcher.output();
}

TEST(Launch, AModelWithoutEmbeddingsNeedsNoShards) {
  JobFolder folder;
  Launcher launcher(folder, Words{"--max-restarts", "0"} + folder.probe("dense_only"));
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
}

TEST(Launch, EvaluatesAndPredictsToo) {
  JobFolder folder;
  folder.train({"--output", folder.path("model")});
  Launcher launcher(folder, kTwoByTwo + Words{"--task", "predict", "--model", folder.path("model"), "--out",
                                              folder.path("p.csv")});
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
  const std::string scores = folder.read("p.csv");
  EXPECT_EQ(std::count(scores.begin(), scores.end(), '\n'), JobFolder::kTestRecords + 1);
}

}  // namespace
}  // namespace embers::testing_support
