// What of a job's status concerns its launcher.
#include <gtest/gtest.h>

#include "apps/launch/job_watch.h"

namespace embers::launch {
namespace {

Status::Member member(const char* role, const char* label, const char* state, uint64_t minibatches = 0) {
  Status::Member m;
  m.role = role;
  m.label = label;
  m.state = state;
  m.joined_s = 7;
  m.minibatches = minibatches;
  return m;
}

Status training() {
  Status status;
  status.phase = "training";
  status.workers.wanted = 3;
  status.shards = {.wanted = 2, .joined = 2, .lost = 0};
  return status;
}

TEST(JobViewTest, MembersOfTheLauncherAreKnownByTheirLabels) {
  Status status = training();
  status.members = {member("shard", "s0", "working"), member("worker", "w0", "working", 5),
                    member("worker", "w1", "late"), member("worker", "w2", "disconnected", 9)};
  const JobView view = view_of(status, {"s0", "w0", "w1", "w2"});
  EXPECT_EQ(view.workers_wanted, 3);
  EXPECT_EQ(view.other_workers, 0);
  ASSERT_EQ(view.members.size(), 3);
  EXPECT_TRUE(view.members.at("s0").useful);
  EXPECT_TRUE(view.members.at("w0").useful);
  EXPECT_FALSE(view.members.at("w1").useful);
  EXPECT_EQ(view.members.at("w0").since, 7);
  EXPECT_EQ(view.disconnected, std::set<std::string>{"w2"});
  EXPECT_EQ(view.known, (std::set<std::string>{"s0", "w0", "w1", "w2"}));
}

TEST(JobViewTest, WorkersThatOthersStartedCountUnlessTheyLeave) {
  Status status = training();
  status.members = {member("worker", "", "working"), member("worker", "x1", "idle"),
                    member("worker", "", "draining"), member("worker", "", "disconnected"),
                    member("reader", "", "working")};
  EXPECT_EQ(view_of(status, {"w0"}).other_workers, 2);
}

TEST(JobViewTest, AShardIsMissedUntilItHasJoined) {
  Status status = training();
  EXPECT_FALSE(view_of(status, {}).misses_shards);
  status.shards.joined = 1;
  EXPECT_TRUE(view_of(status, {}).misses_shards);
}

TEST(JobViewTest, AJobBeginsWhenAllAreThereAndEndsForManyReasons) {
  Status status = training();
  EXPECT_TRUE(view_of(status, {}).begun);
  EXPECT_FALSE(view_of(status, {}).ending);
  status.phase = "gathering";
  EXPECT_FALSE(view_of(status, {}).begun);
  for (const char* phase : {"ending", "closing", "failed", "over"}) {
    status.phase = phase;
    EXPECT_TRUE(view_of(status, {}).ending) << phase;
  }
  status.phase = "training";
  status.stopping = "SIGTERM";
  EXPECT_TRUE(view_of(status, {}).ending);
  status.stopping = "";
  status.error = "lost shard 1";
  EXPECT_TRUE(view_of(status, {}).ending);
}

}  // namespace
}  // namespace embers::launch
