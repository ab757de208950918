// CPUs that shards are bound to.
#include "base/cpus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "actors/ask.h"
#include "actors/owner/owner.h"
#include "tests/support/actors.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;

const std::vector<int> kAllowed = {0, 1, 2, 3, 8, 10, 11};

TEST(Cpus, AListHasNumbersAndRangesInItsOrder) {
  EXPECT_EQ(parse_cpus("3", kAllowed), std::vector<int>({3}));
  EXPECT_EQ(parse_cpus("0,2-3", kAllowed), std::vector<int>({0, 2, 3}));
  EXPECT_EQ(parse_cpus("10-11,8,0-0", kAllowed), std::vector<int>({10, 11, 8, 0}));
}

TEST(Cpus, WhatIsNoListIsNamed) {
  for (const char* part : {"", "x", "-1", "1-", "3-2", "1-2-3", "1 ", "0x1", "99999999999"})
    expect_error(ErrorCode::kInvalid, {fmt::format("'{}' in the CPU list '0,{}'", part, part)},
                 [&] { parse_cpus(fmt::format("0,{}", part), kAllowed); });
  expect_error(ErrorCode::kInvalid, {"CPU 2 is named twice in '1-3,2'"},
               [] { parse_cpus("1-3,2", kAllowed); });
}

TEST(Cpus, ACpuThatIsNotAllowedIsNamedWithThoseThatAre) {
  expect_error(ErrorCode::kInvalid, {"CPU 4 of '2-8'", "0-3,8,10-11"}, [] { parse_cpus("2-8", kAllowed); });
  expect_error(ErrorCode::kInvalid, {"CPU 4 of '4-2147483647'"},
               [] { parse_cpus("4-2147483647", kAllowed); });
}

TEST(Cpus, ThoseOfThisProcessAreAllowed) {
  const std::vector<int> cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_EQ(parse_cpus(std::to_string(cpus.back()), cpus), std::vector<int>({cpus.back()}));
  expect_error(ErrorCode::kInvalid, {"CPU -1"}, [] { bind_thread(-1); });
  expect_error(ErrorCode::kInvalid, {"CPU 8191"}, [] { bind_thread(8191); });
}

// What Linux says about the CPUs of each thread of this process.
std::vector<std::string> cpus_of_threads() {
  std::vector<std::string> all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string key = "Cpus_allowed_list:\t";
    std::ifstream in(task.path() / "status");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with(key)) all.push_back(line.substr(key.size()));
  }
  return all;
}

TEST(Cpus, AShardIsBoundToItsCpuAndNoOtherThreadIs) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU only";
  const std::string cpu = std::to_string(cpus.back());
  System system;
  OwnerConfig config = owner_config(false, {table("a", 2)});
  config.cpu = cpus.back();
  const OwnerHandles owner = spawn_owner(system, config);
  {
    caf::scoped_actor self{system};
    ask(self.ptr(), owner.optimizer, make_message<wire::StatsRequest>());  // the shard has begun
  }
  const auto threads = cpus_of_threads();
  EXPECT_EQ(std::count(threads.begin(), threads.end(), cpu), 1) << threads.size();
  EXPECT_GT(threads.size(), 1u);
  end_owner(owner);
}

}  // namespace
}  // namespace embers
