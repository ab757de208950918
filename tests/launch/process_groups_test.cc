// Processes that end with the one that started them, with all that they have started.
#include "apps/launch/processes/process_groups.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "base/errors.h"
#include "tests/launch/launched.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace embers::launch {
namespace {

using testing_support::descendants;
using testing_support::expect_error;
using testing_support::pid_in;
using testing_support::processes_about;
using testing_support::read_file;
using testing_support::runs;
using testing_support::wait_until;

class ProcessGroupsTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_ / name; }
  void start(const std::string& name, const Words& words, const Environment& environment = {}) {
    ProcessGroups::Child child;
    child.words = words;
    child.environment = environment;
    child.log = path("log");
    groups_->start(name, child);
  }
  void start_shell(const std::string& name, const std::string& script) {
    start(name, {"sh", "-c", script, path("")});  // the last word is how these tests know theirs
  }
  // How the only one ends.
  Ending ending() {
    std::vector<std::pair<std::string, Ending>> ended;
    EXPECT_TRUE(wait_until([&] { return !(ended = groups_->ended()).empty(); }, 20));
    return ended.empty() ? Ending{-1, "still runs"} : ended.front().second;
  }
  // The guard of this process, whether it sleeps or is still starting; -1 where there is none. It becomes
  // known by its command line, so a moment after it was forked.
  pid_t guard() const {
    for (const pid_t pid : descendants(::getpid()))
      if (read_file("/proc/" + std::to_string(pid) + "/cmdline").find(std::string("\0guard\0", 7)) !=
          std::string::npos)
        return pid;
    return -1;
  }

  testing_support::TempDir dir_;
  std::optional<ProcessGroups> groups_{std::in_place, testing_support::path_of(EMBERS_COMMAND)};
};

TEST_F(ProcessGroupsTest, SayHowTheyEnded) {
  start_shell("a", "exit 7");
  EXPECT_EQ(ending().status, 7);
  start_shell("a", "kill -9 $$");
  const Ending killed = ending();
  EXPECT_EQ(killed.status, 137);
  EXPECT_EQ(killed.how, "signal 9 (Killed)");
}

TEST_F(ProcessGroupsTest, AppendToTheirLogAndReadNothing) {
  start("a", {"sh", "-c", "echo $GREETING; cat; ls /proc/self/fd >&2"}, {{"GREETING", "hello"}});
  EXPECT_EQ(ending().status, 0);
  EXPECT_EQ(read_file(path("log")), "hello\n0\n1\n2\n3\n");  // 3 is the folder that ls reads
  start_shell("a", "echo again");
  EXPECT_EQ(ending().status, 0);
  EXPECT_TRUE(read_file(path("log")).ends_with("again\n"));
}

TEST_F(ProcessGroupsTest, AProgramThatIsNotThereIsAnError) {
  expect_error(ErrorCode::kInvalid, {"/nowhere/program", "No such file"},
               [&] { start("a", {"/nowhere/program"}); });
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), 0) << "a process that has ended and nobody has waited for";
  start("b", {"no-such-program-anywhere"});
  const int status = ending().status;
  EXPECT_TRUE(status == 127 || status == 126)
      << status;  // 126: PATH has a folder that is closed to this user
  EXPECT_NE(read_file(path("log")).find("no-such-program-anywhere"), std::string::npos);
}

TEST_F(ProcessGroupsTest, EndWithTheirLeader) {
  start_shell("a", "sleep 1000 & echo $! > " + path("pid") + "; exit 3");
  EXPECT_EQ(ending().status, 3);
  const pid_t sleeper = pid_in(path("pid"));
  EXPECT_TRUE(wait_until([&] { return !runs(sleeper); }));
}

TEST_F(ProcessGroupsTest, ASignalIsForTheLeaderAndWithItEndsTheGroup) {
  start_shell("a", "trap 'exit 9' TERM; sleep 1000 & echo $! > " + path("pid") + "; wait");
  const pid_t sleeper = pid_in(path("pid"));
  groups_->signal("a", SIGTERM);
  EXPECT_EQ(ending().status, 9);
  EXPECT_TRUE(wait_until([&] { return !runs(sleeper); }));
  start_shell("b", "echo $$ > " + path("other") + "; sleep 1000");
  EXPECT_TRUE(runs(pid_in(path("other"))));
  groups_->signal("b", SIGKILL);
  EXPECT_EQ(ending().status, 137);
}

TEST_F(ProcessGroupsTest, WhatIsTypedAtTheTerminalDoesNotReachThem) {
  start_shell("a", "ps -o sid= -p $$ > " + path("sid") + "; echo $$ > " + path("pid"));
  EXPECT_EQ(ending().status, 0);
  EXPECT_EQ(pid_in(path("sid")), pid_in(path("pid")));
}

TEST_F(ProcessGroupsTest, NothingIsLeftAtTheEndNotEvenWhatHasLeftItsGroup) {
  start_shell("a", "setsid sh -c 'echo $$ > " + path("left") + "; exec sleep 1000' & sleep 1000");
  start_shell("b", "trap '' INT TERM HUP; echo $$ > " + path("deaf") + "; while :; do sleep 1; done");
  const pid_t left = pid_in(path("left")), deaf = pid_in(path("deaf"));
  groups_.reset();
  // Somebody else buries what has left its group; where the processors are busy, that takes a moment.
  EXPECT_TRUE(wait_until([&] { return !runs(left); }, 20));
  EXPECT_FALSE(runs(deaf));
  EXPECT_EQ(processes_about(path("")), std::vector<pid_t>());
}

TEST_F(ProcessGroupsTest, AGuardThatIsKilledHasASuccessorThatKnowsEverybody) {
  start_shell("a", "echo $$ > " + path("pid") + "; sleep 1000");
  pid_in(path("pid"));
  pid_t first = -1;
  ASSERT_TRUE(wait_until([&] { return (first = guard()) > 0; }));
  ::kill(first, SIGKILL);
  ASSERT_TRUE(wait_until([&] {
    const pid_t now = groups_->ended().empty() ? guard() : -1;
    return now > 0 && now != first;
  }));
  groups_.reset();
  EXPECT_EQ(processes_about(path("")), std::vector<pid_t>());
}

TEST_F(ProcessGroupsTest, ALineReachesTheirStandardInput) {
  ProcessGroups::Child child;
  child.words = {"sh", "-c", "read line; echo got $line; cat"};
  child.log = path("log");
  child.line = true;
  groups_->start("a", child);
  groups_->say("a", "this\n");
  EXPECT_TRUE(wait_until([&] { return read_file(path("log")) == "got this\n"; }, 20))
      << read_file(path("log"));
  EXPECT_TRUE(groups_->ended().empty());
  groups_->signal("a", SIGKILL);
  EXPECT_EQ(ending().status, 137);
}

}  // namespace
}  // namespace embers::launch
