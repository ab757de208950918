#include "base/forks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <functional>

namespace embers {
namespace {

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) != -1; }

// What a forked child finds.
bool in_child(const std::function<bool()>& is_so) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_so() ? 42 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

class Forks : public testing::Test {
 protected:
  Forks() {
    close_connections_in_children();
    if (::pipe(ends_) != 0) throw std::runtime_error("no pipe");
  }
  ~Forks() override {
    for (const int end : ends_) ::close(end);
  }
  int ends_[2];
};

TEST_F(Forks, ChildrenCloseMarkedDescriptorsAndNoOthers) {
  const ClosedInChildren marked(ends_[1]);
  EXPECT_TRUE(in_child([&] { return is_open(ends_[0]) && !is_open(ends_[1]); }));
  EXPECT_TRUE(is_open(ends_[1])) << "the parent's stays open";
}

TEST_F(Forks, WhatIsLetGoOfStaysOpen) {
  ClosedInChildren marked(ends_[1]);
  marked.let_go();
  { const ClosedInChildren gone(ends_[0]); }
  EXPECT_TRUE(in_child([&] { return is_open(ends_[0]) && is_open(ends_[1]); }));
}

TEST_F(Forks, ManyDescriptorsMayBeMarked) {
  std::deque<ClosedInChildren> marked;
  std::deque<int> copies;
  for (int i = 0; i < 600; ++i) marked.emplace_back(copies.emplace_back(::dup(ends_[1])));
  EXPECT_TRUE(in_child([&] {
    for (const int copy : copies)
      if (is_open(copy)) return false;
    return true;
  }));
  marked.clear();
  for (const int copy : copies) ::close(copy);
}

TEST_F(Forks, ChildrenHaveAnotherGeneration) {
  const uint64_t mine = fork_generation();
  EXPECT_TRUE(in_child([&] { return fork_generation() == mine + 1; }));
  EXPECT_TRUE(in_child([&] { return in_child([&] { return fork_generation() == mine + 2; }); }));
  EXPECT_EQ(fork_generation(), mine);
}

}  // namespace
}  // namespace embers
