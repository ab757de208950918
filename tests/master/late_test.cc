// Workers past the deadline of their lease: others compute what they hold, and whoever is first counts.
#include "tests/master/master_testing.h"

namespace embers {
namespace {

using namespace testing_support;

constexpr auto kTimeout = 5s;  // job.lease_timeout

Options with_deadline(Options options) {
  options.heartbeat_timeout = 1000;  // nobody is lost
  options.lease_timeout = std::chrono::duration<double>(kTimeout).count();
  return options;
}

std::vector<uint64_t> minibatches(const Lease& lease) {
  std::vector<uint64_t> out;
  for (const auto part : lease.get().getMinibatches()) out.push_back(part.getMinibatch());
  return out;
}

void expect_end(Job& job, uint64_t examples) {
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, examples);
  EXPECT_EQ(result.report.workers_lost, 0);
}

void expect_failure(Job& job, const std::vector<std::string>& parts) {
  const JobResult result = job.result();
  ASSERT_TRUE(result.error);
  for (const std::string& part : parts)
    EXPECT_NE(std::string(result.error->what()).find(part), std::string::npos) << result.error->what();
}

TEST(LateWorker, OfAllAttemptsTheFirstCounts) {
  Job job(with_deadline({.minibatches = 2, .workers = 2}));
  Worker late(job), other(job);
  const Lease lease = late.lease();
  auto next = other.lease_later();
  EXPECT_TRUE(next.waits(kTimeout - 1s)) << "nothing is leased twice before the deadline";
  EXPECT_FALSE(next.waits(3s));
  const Lease again = next.get();
  EXPECT_EQ(minibatches(again), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(again.get().getMinibatches()[0].getAttempt(), 2);
  late.push(lease, 0);
  EXPECT_TRUE(late.done(lease, 0)) << "it was first";
  other.push(again, 0);
  EXPECT_FALSE(other.done(again, 0));
  other.push(again, 1);
  EXPECT_TRUE(other.done(again, 1));
  late.push(lease, 1);
  EXPECT_FALSE(late.done(lease, 1));
  late.leave();
  other.leave();
  expect_end(job, 20);
}

TEST(LateWorker, HasNotPushedEverywhereWhatAnotherOneFinishes) {
  Job job(with_deadline({.minibatches = 1, .workers = 2, .shards = 2}));
  Worker late(job), other(job);
  const Lease lease = late.lease();
  late.push_to(0, lease, 0);
  auto next = other.lease_later();
  EXPECT_FALSE(next.waits(7s));
  const Lease again = next.get();
  other.push(again, 0);
  EXPECT_TRUE(other.done(again, 0));
  late.push_to(1, lease, 0);
  EXPECT_FALSE(late.done(lease, 0));
  late.leave();
  other.leave();
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 10);
  EXPECT_EQ(result.report.total.owners.duplicates, 2);
  EXPECT_EQ(result.report.released, 1);
}

TEST(LateWorker, IsLeasedNothingUntilItFinishesSomething) {
  Job job(with_deadline({.minibatches = 6, .workers = 2}));
  Worker late(job), other(job);
  const Lease lease = late.lease();
  job.system_.pass(7s);
  auto more = late.lease_later();
  EXPECT_TRUE(more.waits(1s));
  late.push(lease, 0);
  EXPECT_TRUE(late.done(lease, 0));
  EXPECT_EQ(minibatches(more.get()), (std::vector<uint64_t>{2, 3}))
      << "minibatch 1, which nobody else was leased, is its own again";
  EXPECT_EQ(minibatches(other.lease()), (std::vector<uint64_t>{4, 5}));
}

TEST(LateWorker, HoldsNoBoundedJobUp) {
  Job job(with_deadline({.mode = job::Mode::kBounded, .minibatches = 6, .workers = 2}));
  Worker late(job), other(job);
  const Lease lease = late.lease();
  other.finish(other.lease());
  auto next = other.lease_later();
  EXPECT_TRUE(next.waits(kTimeout - 1s));
  EXPECT_FALSE(next.waits(3s));
  other.finish(next.get());
  for (int i = 0; i < 2; ++i) other.finish(other.lease());
  late.push(lease, 0);
  EXPECT_FALSE(late.done(lease, 0)) << "the other one did it";
  const Lease rejoined = late.lease();
  auto waiting = other.lease_later();
  Lease last = waiting.get();
  EXPECT_EQ(last.get().getMinibatches().size(), 1);
  other.finish(last);
  late.finish(rejoined);
  EXPECT_EQ(other.lease().get().getKind(), Kinds::END);
  late.leave();
  other.leave();
  expect_end(job, 60);
}

TEST(LateWorker, MakesNoVersionWait) {
  Job job(with_deadline({.mode = job::Mode::kSync, .minibatches = 4, .workers = 2, .grads_to_wait = 2}));
  Worker late(job), other(job);
  const Lease lease = late.lease();
  other.finish(other.lease());
  auto next = other.lease_later();
  EXPECT_TRUE(next.waits(kTimeout - 1s));
  EXPECT_FALSE(next.waits(3s));
  const Lease again = next.get();
  EXPECT_EQ(minibatches(again), minibatches(lease));
  late.push(lease, 0);
  other.finish(again);
  EXPECT_EQ(other.lease().get().getVersion(), 1);
  EXPECT_FALSE(late.done(lease, 0)) << "its version is complete";
  late.finish(late.lease());
}

TEST(LateWorker, EvaluatesNothingTwice) {
  Job job(with_deadline({.minibatches = 1, .test_minibatches = 2, .workers = 2}));
  Worker late(job), other(job);
  late.finish(late.lease());
  const Lease lease = late.lease();
  ASSERT_EQ(lease.get().getKind(), Kinds::EVALUATE);
  auto next = other.lease_later();
  EXPECT_FALSE(next.waits(7s));
  const Lease again = next.get();
  other.finish(again);
  for (unsigned i = 0; i < minibatches(lease).size(); ++i) EXPECT_FALSE(late.done(lease, i));
  late.leave();
  other.leave();
  expect_end(job, 10);
}

TEST(LateWorker, TheLastOneEndsTheJobAndIsNamed) {
  Job job(with_deadline({.minibatches = 9, .workers = 2}));
  Worker idle(job), late(job);
  late.finish(late.lease());
  idle.leave();
  const Lease lease = late.lease();
  job.system_.pass(2 * kTimeout - 1s);
  EXPECT_FALSE(job.has_ended());
  expect_failure(job, {"worker 1 (pid", "on here", "minibatch 2", "it holds 2 minibatches",
                       "no other worker can compute what is left"});
}

// Its threads may hang, all but the one that sends heartbeats.
TEST(IdleWorker, ThatAsksForNothingCannotTakeOverFromALateOne) {
  Job job(with_deadline({.minibatches = 9, .workers = 2}));
  Worker late(job), idle(job);
  const Lease lease = late.lease();
  job.system_.pass(2 * kTimeout - 1s);
  EXPECT_FALSE(job.has_ended());
  expect_failure(job, {"worker 0 (pid", "minibatch 0", "; worker 1 (pid", "asks for none",
                       "no other worker can compute what is left"});
}

TEST(IdleWorker, TheLastOneEndsTheJobAndIsNamed) {
  Job job(with_deadline({.minibatches = 9, .workers = 2}));
  Worker leaving(job), idle(job);
  leaving.finish(leaving.lease());
  leaving.leave();
  job.system_.pass(2 * kTimeout - 1s);
  EXPECT_FALSE(job.has_ended());
  expect_failure(job, {"worker 1 (pid", "asks for none"});
}

TEST(IdleWorker, ThatAsksInTimeTakesOver) {
  Job job(with_deadline({.minibatches = 2, .workers = 2}));
  Worker late(job), other(job);
  const Lease lease = late.lease();
  job.system_.pass(2 * kTimeout - 1s);
  other.finish(other.lease());
  late.leave();
  other.leave();
  expect_end(job, 20);
}

// The time of the late one is over, but not that of one which has asked meanwhile, or has just joined.
TEST(IdleWorker, HasItsOwnTime) {
  Job job(with_deadline({.minibatches = 4, .workers = 2}));
  Worker late(job), other(job);
  const Lease lease = late.lease();
  job.system_.pass(kTimeout);
  other.finish(other.lease());
  job.system_.pass(kTimeout + 2s);
  EXPECT_FALSE(job.has_ended()) << "the other one has been idle for less than twice the timeout";
  other.leave();
  Worker newcomer(job);
  job.system_.pass(kTimeout);
  EXPECT_FALSE(job.has_ended());
  newcomer.finish(newcomer.lease());
  newcomer.leave();
  late.leave();
  expect_end(job, 40);
}

TEST(IdleWorker, ThatWaitsForWorkIsNotBlamed) {
  Job job(with_deadline({.mode = job::Mode::kSync, .minibatches = 3, .workers = 2, .grads_to_wait = 1}));
  Worker busy(job), waiting(job);
  for (int i = 0; i < 2; ++i) {
    const Lease lease = busy.lease();
    auto next = waiting.lease_later();
    EXPECT_TRUE(next.waits(kTimeout - 1s));
    busy.finish(lease);
    if (i == 0) waiting.finish(next.get());
  }
}

}  // namespace
}  // namespace embers
