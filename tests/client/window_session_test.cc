// Workers' sessions with a window: their programs draw leases ahead of their work, as loaders do.
#include <gtest/gtest.h>

#include <thread>

#include "tests/client/session_testing.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;
using client::Minibatch;
using client::Session;
using Kind = Session::Draw::Kind;

TEST(WorkerSession, DrawsAheadOfItsWork) {
  RunningJob job({.mode = "sync", .minibatches = 6});
  client::WorkerOptions options = job.worker_options();
  options.window = 3;
  Session session = Session::join_as_worker(options);
  std::vector<Minibatch> drawn;
  for (uint64_t i = 0; i < 3; ++i) {
    Session::Draw draw = session.draw();
    ASSERT_EQ(draw.kind, Kind::kMinibatch);
    EXPECT_EQ(draw.minibatch.number(), i);
    EXPECT_EQ(draw.minibatch.version(), i) << "ahead of the job";
    drawn.push_back(std::move(draw.minibatch));
  }
  EXPECT_EQ(session.draw().kind, Kind::kLater) << "the window is full";
  expect_error(ErrorCode::kInvalid, {"minibatch 0 of epoch 1", "has not begun"}, [&] { pull(drawn[0]); });
  EXPECT_TRUE(drawn[0].begin());
  EXPECT_TRUE(drawn[0].begin()) << "once is enough";
  EXPECT_FALSE(drawn[1].begin_for(50ms)) << "its version is not there";
  pull(drawn[0]);
  ASSERT_TRUE(drawn[0].wait());
  push(std::move(drawn[0]));
  EXPECT_EQ(drawn[1].begin_for(20s), true);
  Session::Draw draw = session.draw();
  ASSERT_EQ(draw.kind, Kind::kMinibatch) << "one is done, so there is room";
  EXPECT_EQ(draw.minibatch.number(), 3u);
  pull(drawn[1]);
  ASSERT_TRUE(drawn[1].wait());
  push(std::move(drawn[1]));
  drawn[2].give_back();  // now 3 is at the head
  draw.minibatch.give_back();
  uint64_t next = 2;
  for (draw = session.draw(); draw.kind == Kind::kMinibatch; draw = session.draw(), ++next) {
    EXPECT_EQ(draw.minibatch.number(), next) << "the lowest first";
    ASSERT_TRUE(draw.minibatch.begin());
    pull(draw.minibatch);
    ASSERT_TRUE(draw.minibatch.wait());
    push(std::move(draw.minibatch));
  }
  EXPECT_EQ(next, 6u);
  EXPECT_EQ(draw.kind, Kind::kOver);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 12u);
  EXPECT_EQ(result.report.released, 2u);
}

TEST(WorkerSession, IsToldToGiveBackWhatWaitsForWhatLiesBehindIt) {
  RunningJob job({.mode = "sync", .minibatches = 3});
  client::WorkerOptions options = job.worker_options();
  options.window = 3;
  Session session = Session::join_as_worker(options);
  Minibatch first = session.draw().minibatch, second = session.draw().minibatch;
  ASSERT_EQ(first.number(), 0u);
  EXPECT_FALSE(second.begin()) << "the first one is drawn, but has not begun";
  ASSERT_TRUE(first.begin());
  second.give_back();
  first.give_back();
  const Minibatch again = session.draw().minibatch;
  EXPECT_EQ(again.number(), 0u);
}

// In an async job the minibatch after the one that is drawn is asked for.
TEST(WorkerSession, AsksAheadWhereNobodyElseIsConcerned) {
  RunningJob job({.workers = 2, .minibatches = 4});
  client::WorkerOptions options = job.worker_options();
  options.window = 3;
  std::optional<Session> other;
  std::thread joining([&] { other.emplace(Session::join_as_worker(options)); });
  Session session = Session::join_as_worker(options);
  joining.join();
  Minibatch first = session.draw().minibatch;
  EXPECT_TRUE(first.begin());
  session.give_back_undrawn();  // also one that is on its way yet
  std::vector<Minibatch> others;
  const auto all_have_come = [&] {
    Session::Draw draw = other->draw();  // "later" as long as what is given back has not arrived
    if (draw.kind == Kind::kMinibatch) others.push_back(std::move(draw.minibatch));
    return others.size() == 3;
  };
  ASSERT_TRUE(wait_until(all_have_come)) << "the first session keeps no more than it has drawn";
  pull(first);
  ASSERT_TRUE(first.wait());
  push(std::move(first));
  for (Minibatch& minibatch : others) {
    ASSERT_TRUE(minibatch.begin());
    pull(minibatch);
    ASSERT_TRUE(minibatch.wait());
    push(std::move(minibatch));
  }
  EXPECT_EQ(session.draw().kind, Kind::kOver);
  EXPECT_EQ(other->draw().kind, Kind::kOver);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 8u);
}

TEST(WorkerSession, DrawsOnlyWithAWindow) {
  RunningJob job({.minibatches = 4});
  Session without = Session::join_as_worker(job.worker_options());
  expect_error(ErrorCode::kInvalid, {"no window", "lease()"}, [&] { without.draw(); });
  client::WorkerOptions options = job.worker_options();
  options.window = 2;
  Session with = Session::join_as_worker(options);
  expect_error(ErrorCode::kInvalid, {"a window", "draw()"}, [&] { with.lease(); });
  options.work = client::Work{.records = 8, .batch_size = 2};
  expect_error(ErrorCode::kInvalid, {"leave WorkerOptions::work out"},
               [&] { Session::join_as_worker(options); });
  with.close();
  EXPECT_EQ(work(without), 4u);
}

}  // namespace
}  // namespace embers
