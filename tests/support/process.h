#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/io.hpp>
#include <boost/process/posix.hpp>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/guarded.h"

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
  Process(const std::vector<std::string>& command, const std::string& log)
      : log_(log),
        child_(command.at(0), boost::process::args(std::vector(command.begin() + 1, command.end())),
               (boost::process::std_out & boost::process::std_err) > log) {}
  // With another file as its standard error.
  Process(const std::vector<std::string>& command, const std::string& log, int standard_error)
      : log_(log),
        child_(command.at(0), boost::process::args(std::vector(command.begin() + 1, command.end())),
               boost::process::std_out > log, boost::process::posix::fd.bind(STDERR_FILENO, standard_error)) {
  }
  ~Process() {
    if (wait(0) != -1) return;
    signal(SIGKILL);
    child_.wait();  // terminate() would not wait for its end
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return child_.id(); }
  void signal(int number) const { ::kill(pid(), number); }
  // Returns when it has stopped; it may still be running when kill() returns.
  void stop() const {
    signal(SIGSTOP);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid()), &info, WSTOPPED | WEXITED | WNOWAIT);
  }
  std::string output() const { return read_file(log_); }
  bool has_printed(const std::string& text) const { return output().find(text) != std::string::npos; }

  // Exit status, 128 + number for an end by a signal, or -1 when it still runs after `seconds`.
  int wait(double seconds = 120) {
    if (!wait_until([&] { return !child_.running(); }, seconds)) return -1;
    const int status = child_.native_exit_code();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::string log_;
  boost::process::child child_;
};

}  // namespace embers::testing_support
