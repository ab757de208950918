// Bounded staleness: who may begin which minibatch, whatever the others do.
#include "tests/master/master_testing.h"

namespace embers {
namespace {

using namespace testing_support;

constexpr auto kBounded = job::Mode::kBounded;

size_t size(const Lease& lease) { return lease.get().getMinibatches().size(); }

TEST(Bounded, AWorkerWaitsOnceItIsTheBoundAheadOfTheSlowest) {
  Job job({.mode = kBounded, .minibatches = 20, .workers = 2, .staleness_bound = 2});
  Worker fast(job), slow(job);
  const Lease first = slow.lease();  // two of them, and it is at clock 0 until it finishes one
  fast.finish(fast.lease());
  const Lease third = fast.lease();
  EXPECT_EQ(size(third), 1) << "its minibatches 0, 1 and 2, no more";
  fast.finish(third);
  auto fourth = fast.lease_later();
  EXPECT_TRUE(fourth.waits());
  slow.push(first, 0);
  EXPECT_TRUE(slow.done(first, 0));
  EXPECT_EQ(size(fourth.get()), 1) << "one more for each clock of the slowest";
}

TEST(Bounded, ABoundOfZeroIsLockStep) {
  Job job({.mode = kBounded, .minibatches = 6, .workers = 2});
  Worker a(job), b(job);
  Lease of_a = a.lease(), of_b = b.lease();
  for (int clock = 0; clock < 2; ++clock) {
    EXPECT_EQ(size(of_a), 1);
    EXPECT_EQ(size(of_b), 1);
    a.finish(of_a);
    auto next = a.lease_later();
    EXPECT_TRUE(next.waits());
    b.finish(of_b);
    of_a = next.get();
    of_b = b.lease();
  }
  b.finish(of_b);
  a.finish(of_a);
  b.leave();
  EXPECT_TRUE(a.work_to_the_end().empty());
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 60);
  EXPECT_EQ(result.report.mode, "bounded");
}

TEST(Bounded, WhoLeavesHoldsNobodyUp) {
  Job job({.mode = kBounded, .minibatches = 6, .workers = 2});
  Worker fast(job), leaving(job);
  leaving.lease();
  fast.finish(fast.lease());
  auto next = fast.lease_later();
  EXPECT_TRUE(next.waits());
  leaving.leave();
  fast.finish(next.get());
  EXPECT_EQ(fast.work_to_the_end().size(), 4);
  EXPECT_EQ(job.result().report.total.examples, 60);
}

TEST(Bounded, WhoStillWaitedWhenTheLastMinibatchWasLeasedIsGivenWhatComesBackLater) {
  Job job({.mode = kBounded, .minibatches = 4, .workers = 4, .staleness_bound = 2});
  Worker leaving(job), returning(job), a(job), b(job);
  leaving.lease();
  const Lease returned = returning.lease();
  auto of_a = a.lease_later(), of_b = b.lease_later();
  EXPECT_TRUE(of_a.waits() && of_b.waits());
  returning.done(returned, 0, true);
  leaving.leave();
  EXPECT_EQ(size(of_a.get()), 1);
  EXPECT_EQ(size(of_b.get()), 2);
}

TEST(Bounded, WhoIsLostHoldsNobodyUpAndItsMinibatchesAreDone) {
  Job job({.mode = kBounded, .minibatches = 6, .workers = 3});
  auto lost = std::make_unique<Worker>(job);
  Worker a(job), b(job);
  const Lease lease = lost->lease();
  lost->push(lease, 0);
  const Lease of_b = b.lease();
  a.finish(a.lease());
  b.finish(of_b);
  auto next = a.lease_later();
  EXPECT_TRUE(next.waits());
  lost.reset();
  const Lease again = next.get();
  EXPECT_EQ(again.get().getMinibatches()[0].getMinibatch(), lease.get().getMinibatches()[0].getMinibatch());
  b.leave();
  a.finish(again);
  a.work_to_the_end();
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 60);
  EXPECT_EQ(result.report.workers_lost, 1);
}

TEST(Bounded, WhoIsSilentHoldsTheOthersUpNoLongerThanTheHeartbeatTimeout) {
  Job job({.mode = kBounded, .minibatches = 4, .workers = 2, .heartbeat_timeout = 0.4});
  Worker silent(job), other(job);
  silent.lease();
  other.finish(other.lease());
  auto next = other.lease_later();
  while (next.waits(50ms)) other.beat();
  other.finish(next.get());
  EXPECT_EQ(other.work_to_the_end().size(), 2);
  EXPECT_EQ(job.result().report.workers_lost, 1);
}

TEST(Bounded, WhoJoinsStartsAtTheClockOfTheSlowest) {
  Job job({.mode = kBounded, .minibatches = 20, .staleness_bound = 1});
  Worker first(job);
  for (int i = 0; i < 4; ++i) first.finish(first.lease());
  Worker late(job);
  const Lease of_first = first.lease();
  EXPECT_EQ(size(late.lease()), 2) << "it has as far to go as the first one has";
  first.finish(of_first);
  auto next = first.lease_later();
  EXPECT_TRUE(next.waits()) << "the late one is the slowest now";
  late.leave();
  EXPECT_EQ(size(next.get()), 2);
}

TEST(Bounded, WhoHasNotAskedForWorkYetHoldsNobodyUp) {
  Job job({.mode = kBounded, .minibatches = 4, .workers = 2});
  Worker working(job), connecting(job);
  EXPECT_EQ(working.work_to_the_end().size(), 4);
  connecting.leave();
  EXPECT_EQ(job.result().report.total.examples, 40);
}

}  // namespace
}  // namespace embers
