// Test programs that are killed: nothing that they have started is left.
#include <csignal>
#include <thread>

#include "tests/launch/launcher.h"

namespace embers::testing_support {
namespace {

// What a test may hold when it is killed: a job by hand, and what a shell has put aside. Run by the test
// below.
TEST(Killed, DISABLED_HoldsAJob) {
  const char* const folder_of_the_other = std::getenv("EMBERS_GUARDED_TEST");
  ASSERT_NE(folder_of_the_other, nullptr);
  JobFolder folder;
  // From a thread that ends: parent-death signals would end the job with it.
  std::unique_ptr<Cluster> cluster;
  std::thread([&] { cluster = std::make_unique<Cluster>(folder, 1, 1, endless(folder)); }).join();
  Process shell({"/bin/sh", "-c", "sleep 1000 & (setsid sleep 1000 &) ; wait"}, folder.path("shell.log"));
  ASSERT_TRUE(cluster->is_training()) << cluster->master->output();
  std::ofstream(std::string(folder_of_the_other) + "/folder") << folder.path("") << "\n";
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

TEST(Killed, DISABLED_ForgetsAProcess) {
  const TempDir dir;
  Process shell({"/bin/sh", "-c", "setsid sleep 1000 &"}, dir / "log");
  EXPECT_EQ(shell.wait(), 0);
}

class KilledTest : public testing::Test {
 protected:
  std::vector<pid_t> processes() const { return processes_about(mark_); }

  TempDir dir_;
  const std::string mark_ = "EMBERS_GUARDED_TEST=" + dir_.path().string();
};

TEST_F(KilledTest, NothingOfItsJobIsLeft) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  Process test({"/usr/bin/env", mark_, program, "--gtest_filter=Killed.DISABLED_HoldsAJob",
                "--gtest_also_run_disabled_tests"},
               dir_ / "log");
  ASSERT_TRUE(wait_until([&] { return !read_file(dir_ / "folder").empty() || test.wait(0) != -1; }));
  ASSERT_EQ(test.wait(0), -1) << test.output();
  EXPECT_GE(processes().size(), 1u + 3u + 3u);  // itself, a job of three processes, a shell and what it runs
  test.signal(SIGKILL);
  test.wait();
  EXPECT_TRUE(wait_until([&] { return processes().empty(); }, 20)) << processes().size() << " are left";
  std::string folder = read_file(dir_ / "folder");
  folder.pop_back();
  std::filesystem::remove_all(folder);  // files are left; they hold nothing up
}

TEST_F(KilledTest, NothingIsLeftOfATestThatEndsByItselfEither) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  Process test({"/usr/bin/env", mark_, program, "--gtest_filter=Killed.DISABLED_ForgetsAProcess",
                "--gtest_also_run_disabled_tests"},
               dir_ / "log");
  EXPECT_EQ(test.wait(), 0) << test.output();
  EXPECT_TRUE(wait_until([&] { return processes().empty(); }, 20)) << processes().size() << " are left";
}

TEST_F(KilledTest, AScriptThatIsKilledLeavesNothingEither) {
  const std::string guarded = path_of(EMBERS_GUARDED_SCRIPT);
  Process script({"/usr/bin/env", "-u", "EMBERS_TEST", mark_, guarded, "/bin/sh", "-c",
                  "sleep 1000 & (setsid sleep 1000 &) ; echo > " + (dir_ / "ready") + "; wait"},
                 dir_ / "log");
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(dir_ / "ready"); })) << script.output();
  EXPECT_TRUE(wait_until([&] { return processes().size() >= 3; })) << processes().size();
  script.signal(SIGKILL);
  script.wait();
  EXPECT_TRUE(wait_until([&] { return processes().empty(); }, 20)) << processes().size() << " are left";
}

TEST_F(KilledTest, AScriptReturnsTheStatusOfItsCommand) {
  Process script(
      {"/usr/bin/env", "-u", "EMBERS_TEST", path_of(EMBERS_GUARDED_SCRIPT), "/bin/sh", "-c", "exit 7"},
      dir_ / "log");
  EXPECT_EQ(script.wait(), 7);
}

}  // namespace
}  // namespace embers::testing_support
