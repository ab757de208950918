#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace embers::testing_support {

// Whether `body` reports no failure in a child process that may allocate this many bytes more than it has.
// Call where no other thread runs. Sanitizers reserve more address space than any limit allows: under them
// the child runs without.
template <class Body>
bool succeeds_within(size_t bytes, const Body& body) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + bytes;
    const rlimit limit{most, most};
    if (pages == 0 || ::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
#else
    static_cast<void>(bytes);
#endif
    int status = 1;
    try {
      body();
      status = testing::Test::HasFailure() ? 1 : 0;
    } catch (const std::exception& e) {
      ADD_FAILURE() << "under the memory limit: " << e.what();
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "the child was killed by signal " << WTERMSIG(status);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace embers::testing_support
