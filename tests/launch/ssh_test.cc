// `embers launch --hosts`: several hosts by ssh, to an sshd of the test's own on the loopback.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "tests/launch/launcher.h"

namespace embers::testing_support {
namespace {

constexpr char kSshd[] = "/usr/sbin/sshd";

// Debian's sshd as a plain process, with keys and settings of its own. It ends with this process.
class SshServer {
 public:
  SshServer() {
    make_key("host_key");
    make_key("user_key");
    std::filesystem::copy_file(dir_ / "user_key.pub", dir_ / "authorized_keys");
    // It runs as root only with this folder, which a package's service would make.
    if (::geteuid() == 0) ::mkdir("/run/sshd", 0755);
    for (int attempt = 0; attempt < 20 && !process_; ++attempt)
      start(20'000 + (::getpid() * 7 + attempt * 131) % 40'000);
  }

  bool runs() const { return process_.has_value(); }
  std::string log() const { return read_file(dir_ / "log"); }
  // The command that reaches it, by any of the names a, b and c.
  std::string ssh() const { return "ssh -F " + (dir_ / "client"); }
  // All that runs at the other end of ssh.
  std::vector<pid_t> processes() const { return descendants(process_->pid()); }
  // Of those, the ones that hold a connection each.
  std::vector<pid_t> connections() const {
    std::vector<pid_t> found;
    for (const pid_t pid : processes())
      if (read_file("/proc/" + std::to_string(pid) + "/cmdline").starts_with("sshd: ")) found.push_back(pid);
    return found;
  }

 private:
  void make_key(const std::string& name) {
    Process keygen({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir_ / name},
                   dir_ / "keygen");
    EXPECT_EQ(keygen.wait(), 0) << keygen.output();
  }
  void start(int port) {
    std::ofstream(dir_ / "server") << "ListenAddress 127.0.0.1\nPort " << port << "\nHostKey "
                                   << (dir_ / "host_key") << "\nAuthorizedKeysFile "
                                   << (dir_ / "authorized_keys") << "\nPidFile " << (dir_ / "pid")
                                   << "\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                                      "PermitRootLogin prohibit-password\nMaxStartups 100\n";
    std::ofstream(dir_ / "client")
        << "Host a b c\nHostName 127.0.0.1\nPort " << port << "\nIdentityFile " << (dir_ / "user_key")
        << "\nIdentitiesOnly yes\nUserKnownHostsFile " << (dir_ / "known_hosts")
        << "\nGlobalKnownHostsFile none\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n";
    process_.emplace(
        Words{"/usr/bin/setpriv", "--pdeathsig", "KILL", kSshd, "-D", "-e", "-f", dir_ / "server"},
        dir_ / "log");
    const bool listens =
        wait_until([&] { return process_->wait(0) != -1 || process_->has_printed("Server listening"); }, 10);
    if (!listens || process_->wait(0) != -1) process_.reset();
  }

  TempDir dir_;
  std::optional<Process> process_;
};

#define NEEDS_SSHD() \
  if (!std::filesystem::exists(kSshd)) GTEST_SKIP() << "there is no " << kSshd << ": install openssh-server"

class LaunchBySsh : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_SSHD();
    server_.emplace();
    ASSERT_TRUE(server_->runs()) << server_->log();
  }
  void launch(const Words& words) {
    launcher_.emplace(folder_,
                      Words{"--hosts", "a,b,c", "--ssh", server_->ssh(), "--listen", "127.0.0.1:0"} + words);
  }
  bool nothing_is_left(const std::vector<pid_t>& remote) {
    return launcher_->leaves_nothing() &&
           wait_until([&] { return std::none_of(remote.begin(), remote.end(), runs); }, 10);
  }

  JobFolder folder_;
  std::optional<SshServer> server_;
  std::optional<Launcher> launcher_;
};

TEST_F(LaunchBySsh, RunsAJobOverSeveralHosts) {
  launch({"--shards", "2", "--workers", "2"});
  EXPECT_EQ(launcher_->process().wait(), 0) << launcher_->output();
  EXPECT_EQ(folder_.report()["examples"], 2 * JobFolder::kRecords);
  EXPECT_TRUE(launcher_->process().has_printed("w1     | ")) << launcher_->output();
  EXPECT_TRUE(nothing_is_left(server_->processes()));
}

TEST_F(LaunchBySsh, NobodySeesTheSecret) {
  launch(Words{"--shards", "1", "--workers", "2"} + endless(folder_));
  ASSERT_TRUE(launcher_->trains()) << launcher_->output();
  const std::string secret = folder_.read("job/secret").substr(0, 32);
  ASSERT_EQ(secret.size(), 32);
  EXPECT_GE(server_->processes().size(), 3u);
  EXPECT_EQ(processes_about(secret), std::vector<pid_t>());
}

TEST_F(LaunchBySsh, OneInterruptSavesAndEndsTheJob) {
  launch(Words{"--shards", "1", "--workers", "2", "--output", folder_.path("saved")} + endless(folder_));
  ASSERT_TRUE(launcher_->trains()) << launcher_->output();
  const auto remote = server_->processes();
  launcher_->process().signal(SIGINT);
  EXPECT_EQ(launcher_->process().wait(), 0) << launcher_->output();
  EXPECT_TRUE(std::filesystem::exists(folder_.path("saved"))) << launcher_->output();
  EXPECT_TRUE(nothing_is_left(remote));
}

TEST_F(LaunchBySsh, NothingIsLeftOnAnyHostWhenTheLauncherIsKilled) {
  const std::string script = "sleep 1000 & (setsid sleep 1000 &) ; " + path_of(EMBERS_COMMAND) + " worker";
  launch(Words{"--shards", "2", "--workers", "2"} + endless(folder_) + Words{"--", "sh", "-c", script});
  ASSERT_TRUE(launcher_->trains()) << launcher_->output();
  const auto remote = server_->processes();
  EXPECT_GE(remote.size(), 4u * 3 + 2u * 3);
  launcher_->process().signal(SIGKILL);
  EXPECT_TRUE(nothing_is_left(remote));
}

TEST_F(LaunchBySsh, WhatRanBehindABrokenConnectionEndsAndAWorkerComesBack) {
  launch(Words{"--shards", "1", "--workers", "1", "--dump-rows", folder_.path("rows")} +
         counting(folder_, 6));
  ASSERT_TRUE(launcher_->trains()) << launcher_->output();
  const pid_t worker = launcher_->pid("w0");
  // Its connection is the one above it.
  for (const pid_t connection : server_->connections()) {
    const auto below = descendants(connection);
    if (std::find(below.begin(), below.end(), worker) == below.end()) continue;
    ::kill(connection, SIGKILL);
  }
  EXPECT_TRUE(wait_until([&] { return !runs(worker); }, 10));
  EXPECT_EQ(launcher_->process().wait(), 0) << launcher_->output();
  EXPECT_TRUE(launcher_->process().has_printed("starting w0 again")) << launcher_->output();
  expect_each_record_counted_once(folder_, 6);
}

TEST_F(LaunchBySsh, AHostThatCannotBeReachedIsNamed) {
  launcher_.emplace(folder_, Words{"--hosts", "nowhere.invalid", "--ssh", server_->ssh(), "--listen",
                                   "127.0.0.1:0", "--max-restarts", "0"});
  EXPECT_EQ(launcher_->process().wait(), 1) << launcher_->output();
  for (const char* text : {"gave up on s0", "nowhere.invalid"})
    EXPECT_TRUE(launcher_->process().has_printed(text)) << text << " in " << launcher_->output();
}

TEST_F(LaunchBySsh, AProgramThatIsNotOnTheHostIsNamed) {
  launch({"--remote-program", "/nowhere/embers", "--max-restarts", "0"});
  EXPECT_EQ(launcher_->process().wait(), 1) << launcher_->output();
  EXPECT_TRUE(launcher_->process().has_printed("/nowhere/embers")) << launcher_->output();
}

}  // namespace
}  // namespace embers::testing_support
