#include "actors/owner/staleness.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

TEST(Staleness, FallsIntoBucketsThatDoubleAndCoverEverything) {
  std::string names;
  for (size_t i = 0; i < Staleness::kBuckets; ++i) names += Staleness::bucket_name(i) + " ";
  EXPECT_EQ(names, "0 1 2 3-4 5-8 9-16 17-32 33+ ");
  const std::vector<std::vector<uint64_t>> buckets = {{0},    {1},     {2},      {3, 4},
                                                      {5, 8}, {9, 16}, {17, 32}, {33, 34, UINT64_MAX}};
  for (size_t i = 0; i < buckets.size(); ++i)
    for (const uint64_t s : buckets[i]) {
      Staleness staleness;
      staleness.add(s);
      EXPECT_EQ(staleness.counts[i], 1) << s;
    }
}

TEST(Staleness, OfSeveralOwnersAddsUp) {
  Staleness a, b;
  for (const uint64_t s : {0, 0, 1, 7}) a.add(s);
  for (const uint64_t s : {2, 2}) b.add(s);
  a.merge(b);
  EXPECT_EQ(a.pushes(), 6);
  EXPECT_EQ(a.mean(), 2);
  EXPECT_EQ(a.max, 7);
  EXPECT_EQ(a.summary(), "mean 2.00, max 7");
  EXPECT_EQ(a.text(), "mean 2.00, max 7 (0: 33%, 1: 17%, 2: 33%, 5-8: 17%)");
  EXPECT_EQ(Staleness().mean(), 0);
}

TEST(Staleness, OfAnotherBuildsReplyLosesNoMoreThanItsBuckets) {
  const auto reply = make_message<wire::StatsReply>([](wire::StatsReply::Builder b) {
    b.setStaleness(9);
    b.initStalenessCounts(2).set(1, 9);
  });
  EXPECT_EQ(read_staleness(reply.get()).counts[1], 9);
  EXPECT_EQ(read_staleness(reply.get()).pushes(), 9);
}

}  // namespace
}  // namespace embers
