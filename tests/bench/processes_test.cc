#include "bench/harness/processes.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "bench/harness/child.h"

namespace embers {
namespace {

TEST(SetPolicy, HoldsForThreadsThatRunAndForThoseTheyStart) {
  std::atomic<int> now = -1, later = -1;
  std::atomic<bool> set = false;
  std::thread runs([&] {
    while (!set) std::this_thread::yield();
    now = sched_getscheduler(0);
    std::thread([&] { later = sched_getscheduler(0); }).join();
  });
  set_policy_of_this_process(Policy::kBatch);
  set = true;
  runs.join();
  set_policy_of_this_process(Policy::kOther);
  EXPECT_EQ(now, SCHED_BATCH);
  EXPECT_EQ(later, SCHED_BATCH);
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
}

TEST(WithDescendants, FindsWhatAChildHasStarted) {
  BenchChild child({"sh", "-c", "sleep 1000 & echo ready $!; cat >/dev/null; kill $!"});
  const auto all = child.processes();
  EXPECT_EQ(std::count(all.begin(), all.end(), std::stoi(child.ready())), 1);
  EXPECT_EQ(std::count(all.begin(), all.end(), ::getpid()), 0);
  set_policy(all, Policy::kBatch);
  EXPECT_EQ(sched_getscheduler(std::stoi(child.ready())), SCHED_BATCH);
}

TEST(AddWithPolicies, TriesBothPolicies) {
  std::vector<Policy> seen;
  Contest contest;
  add_with_policies(
      contest, "a", "2 threads", [&](Policy policy) { seen.push_back(policy); }, [] { return Cost{1}; });
  contest.measure(1);
  EXPECT_EQ(seen, (std::vector{Policy::kOther, Policy::kBatch}));
  EXPECT_TRUE(contest.json()["a"]["tried"].contains("2 threads, batch"));
}

}  // namespace
}  // namespace embers
