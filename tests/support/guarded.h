#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/close_range.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/support/paths.h"

namespace embers::testing_support {

// A process that ends whatever this test program has started, once this program has ended: at once when it
// was killed or has crashed, after two seconds when it has ended by itself. A parent-death signal would not
// do. It follows the thread that started a child, which may end in the middle of a test, and does not reach
// what runs below a shell. The guard reads a pipe whose other end only this program holds, and knows the
// processes by a mark in their environment, which they inherit. It is no child of this program, so it
// outlives also those who end a whole tree of processes, as ctest does. There is one for the program, made
// before main.
class TestGuard {
 public:
  TestGuard() : program_(::getpid()) {
    uint64_t number = 0;
    int ends[2];
    if (::getrandom(&number, sizeof number, 0) != sizeof number || ::pipe2(ends, O_CLOEXEC) != 0) return;
    const std::string mark = std::to_string(program_) + "-" + std::to_string(number);
    const std::string script = path_of("guard.sh");
    const pid_t child = ::fork();
    if (child == 0) become_guard(ends[0], script, mark);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]);
    line_ = ends[1];
    ::setenv("EMBERS_TEST", mark.c_str(), 1);
    ::pthread_atfork(
        nullptr, [] { has_forked = true; }, nullptr);
  }
  // Not in a process that was forked, and inherited this one's memory.
  ~TestGuard() {
    if (::getpid() != program_ || line_ < 0) return;
    const std::string end = has_forked ? "ended\n" : "done\n";
    [[maybe_unused]] const ssize_t n = ::write(line_, end.data(), end.size());
  }
  TestGuard(const TestGuard&) = delete;
  TestGuard& operator=(const TestGuard&) = delete;

 private:
  [[noreturn]] static void become_guard(int input, const std::string& script, const std::string& mark) {
    ::setsid();
    ::unsetenv(
        "EMBERS_TEST");  // of a test that has started this one, if any, whose guard need not end this guard
    if (::fork() != 0) ::_exit(0);
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(input, STDIN_FILENO);
    ::dup2(nothing, STDOUT_FILENO);
    ::dup2(nothing, STDERR_FILENO);
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // it must not keep a lock or a pipe of this program's parent
    ::execl("/bin/sh", "sh", script.c_str(), mark.c_str(), nullptr);
    ::_exit(127);
  }

  static inline std::atomic<bool> has_forked = false;
  const pid_t program_;
  int line_ = -1;
};

inline const TestGuard kTestGuard;

}  // namespace embers::testing_support
