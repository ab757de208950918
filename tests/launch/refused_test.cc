// What `embers launch` refuses, and what it would run (--dry-run).
#include "tests/launch/launcher.h"

namespace embers::testing_support {
namespace {

TEST(Launch, ASecondOneOnTheSameJobDirectoryIsRefused) {
  JobFolder folder;
  Launcher launcher(folder, kTwoByTwo + endless(folder));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  EXPECT_EQ(folder.run({"launch", folder.job(), "--job-dir", launcher.job_dir()}), 2) << folder.output();
  EXPECT_NE(folder.output().find("another embers launch uses job directory '" + launcher.job_dir()),
            std::string::npos)
      << folder.output();
  EXPECT_TRUE(launcher.trains()) << launcher.output();
}

TEST(Launch, AJobDirectoryWithAnotherMasterIsRefused) {
  JobFolder folder;
  const auto master = folder.start({"master", folder.job(), "--listen", "127.0.0.1:0", "--job-dir",
                                    folder.path("job"), "--shards", "1", "--workers", "1"});
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(folder.path("job/address")); }));
  EXPECT_EQ(folder.run({"launch", folder.job(), "--job-dir", folder.path("job")}), 2) << folder.output();
  EXPECT_NE(folder.output().find("another job"), std::string::npos) << folder.output();
  EXPECT_TRUE(std::filesystem::exists(folder.path("job/address")));
}

TEST(Launch, TheAddressOfAMasterThatWasKilledMisleadsNobody) {
  JobFolder folder;
  std::filesystem::create_directory(folder.path("job"));
  std::filesystem::permissions(folder.path("job"), std::filesystem::perms::owner_all);
  folder.write("job/address", "127.0.0.1:9\n");
  Launcher launcher(folder, kTwoByTwo);
  EXPECT_EQ(launcher.process().wait(), 0) << launcher.output();
}

TEST(Launch, MistakesEndItBeforeAnythingIsStarted) {
  JobFolder folder;
  const auto refused = [&](const Words& words, const std::string& text) {
    EXPECT_EQ(folder.run(Words{"launch"} + words), 2) << folder.output();
    EXPECT_NE(folder.output().find(text), std::string::npos) << text << " in " << folder.output();
  };
  refused({}, "say which program they run");
  refused({folder.job(), "--"}, "no command after --");
  refused({folder.job(), "--workers", "0"}, "--workers");
  refused({folder.job(), "--task", "predict"}, "needs --model");
  refused(Words{folder.job()} + set({"training.epoks=1"}), "epoks");
  refused({folder.path("none.toml")}, "none.toml");
  refused({folder.job(), "--hosts", "a,b", "--listen", "unix:/run/x"}, "unix:/run/x");
  refused({folder.job(), "--job-dir", "/dev/null"}, "/dev/null");
  refused({folder.job(), "--job-dir", folder.path(std::string(300, 'x'))}, "cannot make job directory");
  refused({folder.job(), "--", "no-such-program"}, "'no-such-program': there is no such program in PATH");
  refused({folder.job(), "--", folder.path("")}, "there is no such program");
  refused({folder.job(), "--workers", "100001"}, "--workers");
  refused(Words{folder.job()} + set({"training.workers=100001"}), "from 1 to 100000");
  refused({folder.job(), "--hosts", "a,-oProxyCommand=x"}, "'-oProxyCommand=x' is not a host");
  refused({folder.job(), "--hosts", "a b"}, "'a b' is not a host");
  refused({folder.job(), "--ssh", "ssh -v"}, "--hosts");
  refused({folder.job(), "--hosts", "a", "--ssh", " "}, "--ssh");
}

TEST(Launch, AMistakeThatOnlyTheMasterSeesEndsItWithItsStatus) {
  JobFolder folder;
  Launcher launcher(folder, set({"model.name=nonsense"}));
  EXPECT_EQ(launcher.process().wait(), 2) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("nonsense")) << launcher.output();
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(Launch, ADryRunPrintsCommandsThatRunTheJob) {
  JobFolder folder;
  ASSERT_EQ(folder.run({"launch", folder.job(), "--shards", "1", "--workers", "2", "--job-dir",
                        folder.path("job"), "--report", folder.path("out.json"), "--dry-run"}),
            0);
  EXPECT_FALSE(std::filesystem::exists(folder.path("job")));
  std::string script;
  int lines = 0;
  std::istringstream commands(folder.output());
  for (std::string line; std::getline(commands, line); ++lines) script += line + " &\n";
  EXPECT_EQ(lines, 4) << folder.output();
  Process shell({"/bin/sh", "-c", script + "wait"}, folder.path("log"));
  EXPECT_EQ(shell.wait(), 0) << shell.output();
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords) << shell.output();
}

}  // namespace
}  // namespace embers::testing_support
