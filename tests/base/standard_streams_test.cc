// What becomes of results that cannot be written, and of descriptors that were closed.
#include "base/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>

#include "base/errors.h"

namespace embers {
namespace {

// The exit status of a process of its own that runs this.
int in_a_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int print_to(int descriptor) {
  std::signal(SIGPIPE, SIG_IGN);
  ::dup2(descriptor, STDOUT_FILENO);
  std::fputs("results\n", stdout);
  try {
    flush_results();
  } catch (const Error& e) {
    return exit_status(e.code());
  }
  return 0;
}

TEST(StandardStreams, ResultsThatDoNotFitOnADiskAreAnError) {
  EXPECT_EQ(in_a_child([] { return print_to(::open("/dev/full", O_WRONLY)); }), 1);
  EXPECT_EQ(in_a_child([] { return print_to(::open("/dev/null", O_WRONLY)); }), 0);
}

TEST(StandardStreams, AnErrorOfAnEarlierWriteIsNotForgotten) {
  EXPECT_EQ(in_a_child([] {
              ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
              std::fputs("results\n", stdout);
              std::fflush(stdout);
              return print_to(::open("/dev/null", O_WRONLY));
            }),
            1);
}

TEST(StandardStreams, AReaderThatHasGoneIsNoError) {
  EXPECT_EQ(in_a_child([] {
              int ends[2];
              if (::pipe(ends) != 0) return 99;
              ::close(ends[0]);
              return print_to(ends[1]);
            }),
            0);
}

TEST(StandardStreams, ThoseThatAreClosedGetTheNumbersOfNoOtherFile) {
  EXPECT_GE(in_a_child([] {
              for (const int fd : {0, 1, 2}) ::close(fd);
              open_standard_streams();
              return ::open("/dev/null", O_RDONLY);
            }),
            3);
}

}  // namespace
}  // namespace embers
