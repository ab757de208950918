#include "apps/process/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;

// The limit as it was, again at the end.
class OpenFiles : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0); }
  void TearDown() override { ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  rlimit before_{};
};

TEST_F(OpenFiles, AreAllowedUpToTheHardLimit) {
  const rlimit few{before_.rlim_max / 2, before_.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(allow_open_files(), before_.rlim_max);
  rlimit now{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, before_.rlim_max);
}

TEST_F(OpenFiles, TooFewAreAnErrorThatSaysWhatToDo) {
  check_open_files(100, "a job");
  expect_error(ErrorCode::kInvalid, {"a job", "ulimit -Hn"},
               [&] { check_open_files(before_.rlim_max + 1, "a job"); });
}

}  // namespace
}  // namespace embers
