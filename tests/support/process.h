#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace embers::testing_support {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Waits until `condition` holds; false when it did not within the time.
template <class Condition>
bool wait_until(Condition condition, double seconds = 60) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

// A child process whose output goes to a file. Killed at the end if it still runs.
class Process {
 public:
  Process(const std::vector<std::string>& command, std::string log) : log_(std::move(log)) {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    const int out = open(log_.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_APPEND, 0600);
    dup2(out, 1);
    dup2(out, 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Process() {
    if (!status_ && pid_ > 0) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  // Returns when it has stopped; it may still be running when kill() returns.
  void stop() const {
    signal(SIGSTOP);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT);
  }
  std::string output() const { return read_file(log_); }
  bool has_printed(const std::string& text) const { return output().find(text) != std::string::npos; }

  // Exit status, 128 + number for an end by a signal, or -1 when it still runs after `seconds`.
  int wait(double seconds = 120) {
    wait_until(
        [&] {
          int status = 0;
          if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_)
            status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
          return status_.has_value();
        },
        seconds);
    return status_.value_or(-1);
  }

 private:
  std::string log_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

}  // namespace embers::testing_support
