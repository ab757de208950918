// `embers member`, which runs a command for a launcher on another host: its standard input stands for ssh's
// connection.
#include "apps/launch/processes/remote_member.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <boost/process/pipe.hpp>
#include <csignal>

#include "tests/launch/launched.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace embers::launch {
namespace {

using namespace testing_support;
namespace bp = boost::process;

class RemoteMemberTest : public testing::Test {
 protected:
  void start(std::vector<std::string> options, const std::string& script) {
    options.insert(options.begin(), "member");
    for (const char* const word : {"--", "sh", "-c"}) options.emplace_back(word);
    options.push_back(script);
    options.push_back(path(""));  // how these tests know their processes
    child_.emplace(path_of(EMBERS_COMMAND), bp::args(options),
                   bp::std_in<input_, (bp::std_out & bp::std_err)> path("log"));
  }
  std::string path(const std::string& name) const { return dir_ / name; }
  std::string log() const { return read_file(path("log")); }
  void say(const std::string& text) { input_.write(text.data(), static_cast<int>(text.size())); }
  int status() {
    if (!wait_until([&] { return !child_->running(); }, 20)) return -1;
    const int status = child_->native_exit_code();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  bool nothing_is_left() {
    return wait_until([&] { return processes_about(path("")).empty(); }, 20);
  }

  TempDir dir_;
  bp::pipe input_;
  std::optional<bp::child> child_;
};

TEST_F(RemoteMemberTest, ReturnsTheStatusOfItsCommand) {
  start({"COLOR=blue", "EMPTY="}, "echo $COLOR${EMPTY-unset}; exit 5");
  EXPECT_EQ(status(), 5) << log();
  EXPECT_EQ(log(), "blue\n");
}

TEST_F(RemoteMemberTest, ReturnsTheSignalThatEndedItsCommand) {
  start({}, "kill -9 $$");
  EXPECT_EQ(status(), 137) << log();
}

TEST_F(RemoteMemberTest, StartsInTheDirectoryIfThereIsOne) {
  start({"--dir", dir_.path()}, "pwd");
  EXPECT_EQ(status(), 0) << log();
  EXPECT_EQ(log(), dir_.path().string() + "\n");
}

TEST_F(RemoteMemberTest, WithoutThatDirectoryStartsWhereItIsAndSaysSo) {
  start({"--dir", "/nowhere/at/all"}, "pwd");
  EXPECT_EQ(status(), 0) << log();
  EXPECT_NE(log().find("there is no directory '/nowhere/at/all' on this host"), std::string::npos) << log();
}

TEST_F(RemoteMemberTest, TheSecretIsInAFileThatIsOnNoDisk) {
  start({"--secret"},
        "cat $EMBERS_SECRET_FILE; stat -L -c %a $EMBERS_SECRET_FILE; readlink $EMBERS_SECRET_FILE");
  say("hush hush\n");
  EXPECT_EQ(status(), 0) << log();
  EXPECT_EQ(log(), "hush hush\n600\n/memfd:embers-secret (deleted)\n");
}

TEST_F(RemoteMemberTest, WithoutTheSecretNothingIsStarted) {
  start({"--secret"}, "echo started");
  input_.close();
  EXPECT_EQ(status(), 2) << log();
  EXPECT_NE(log().find("before the job's secret"), std::string::npos) << log();
}

TEST_F(RemoteMemberTest, AsksItsCommandToEnd) {
  start({}, "trap 'exit 4' TERM; echo $$ > " + path("pid") + "; while :; do sleep 0.05; done");
  pid_in(path("pid"));
  say(kAskToEnd);
  EXPECT_EQ(status(), 4) << log();
}

TEST_F(RemoteMemberTest, EndsEverythingWhenItsInputEnds) {
  start({}, "trap '' HUP; sleep 1000 & echo $! > " + path("pid") + "; wait");
  const pid_t sleeper = pid_in(path("pid"));
  EXPECT_TRUE(runs(sleeper));
  input_.close();
  EXPECT_EQ(status(), 128 + SIGHUP) << log();
  EXPECT_FALSE(runs(sleeper));
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RemoteMemberTest, NothingIsLeftWhenItIsKilled) {
  start({}, "sleep 1000 & echo $! > " + path("pid") + "; setsid sleep 1000; wait");
  const pid_t sleeper = pid_in(path("pid"));
  ::kill(child_->id(), SIGKILL);
  EXPECT_EQ(status(), 137) << log();
  EXPECT_TRUE(wait_until([&] { return !runs(sleeper); }, 20));
  EXPECT_TRUE(nothing_is_left());
}

}  // namespace
}  // namespace embers::launch
