// Programs that compute a running job's gradients by themselves: their threads wait in client::Session, so the
// job behind it is not simulated.
#include <gtest/gtest.h>

#include <thread>

#include "tests/client/running_job.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;
using client::Minibatch;
using client::Session;

const std::vector<int64_t> kKeys{5, -3, 1000003};
const std::vector<std::string_view> kWords{"a", "bc"};

void pull(Minibatch& minibatch) {
  const client::TableKeys lists[] = {{.table = "user", .ints = kKeys}, {.table = "word", .bytes = kWords}};
  minibatch.pull(lists);
}

// Gradients: 1 for rows of "user", none for "word", (1, 2, 3) for "w".
void push(Minibatch minibatch) {
  const std::vector<float> user(kKeys.size() * kUserDim, 1), w{1, 2, 3}, scores(2, 0.5f), labels{0, 1};
  const std::span<const float> rows[] = {user, {}}, parameters[] = {w};
  minibatch.push(rows, parameters, {.examples = 2, .loss_sum = 3, .scores = scores, .labels = labels});
}

void finish(Minibatch minibatch) {
  const std::vector<float> scores{0.1f, 0.9f}, labels{0, 1};
  const std::vector<uint64_t> records{2 * minibatch.number(), 2 * minibatch.number() + 1};
  minibatch.finish({.examples = 2, .loss_sum = 1, .scores = scores, .labels = labels, .records = records});
}

// Computes all that it is given; returns how many minibatches it trained.
size_t work(Session& session) {
  size_t trained = 0;
  while (Minibatch minibatch = session.lease()) {
    pull(minibatch);
    if (!minibatch.wait()) continue;
    trained += !minibatch.evaluate();
    minibatch.evaluate() ? finish(std::move(minibatch)) : push(std::move(minibatch));
  }
  return trained;
}

class Modes : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Modes, testing::Values("async", "bounded", "sync"));

TEST_P(Modes, EveryMinibatchIsAppliedOnceAndEvaluated) {
  RunningJob job({.mode = GetParam(), .minibatches = 5, .test_minibatches = 3, .epochs = 2});
  Session session = Session::join_as_worker(job.worker_options());
  const std::vector<float> first = job.row("user", Keys(std::vector<int64_t>{5}));
  EXPECT_EQ(work(session), 10u);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 20u);
  EXPECT_EQ(result.report.total.auc, 1.0);
  EXPECT_EQ(result.report.released, 0u);
  EXPECT_EQ(job.rows(), 5u);
  const std::vector<float> last = job.row("user", Keys(std::vector<int64_t>{5}));
  for (size_t c = 0; c < kUserDim; ++c) EXPECT_NEAR(last[c], first[c] - 10, 1e-5);
  EXPECT_EQ(job.row("word", Keys(std::vector<std::string>{"a"})), std::vector<float>{0});
  const auto w = job.row(kDenseTable, Keys(std::vector<std::string>{"w#0"}));
  EXPECT_EQ(std::vector<float>(w.begin(), w.begin() + 4), (std::vector<float>{-9.5f, -19.5f, -29.5f, 0.5f}));
  EXPECT_FALSE(session.lease()) << "and none after the end";
}

TEST(WorkerSession, SeesRowsAndParametersOfItsOwnPushes) {
  RunningJob job({.mode = "sync", .minibatches = 2});
  Session session = Session::join_as_worker(job.worker_options());
  for (float done = 0; done < 2; ++done) {
    Minibatch minibatch = session.lease();
    ASSERT_TRUE(minibatch);
    EXPECT_EQ(minibatch.epoch(), 1u);
    EXPECT_EQ(minibatch.number(), static_cast<uint64_t>(done));
    EXPECT_EQ(minibatch.version(), static_cast<uint64_t>(done));
    pull(minibatch);
    ASSERT_TRUE(minibatch.wait());
    ASSERT_EQ(minibatch.rows(0).size(), kKeys.size() * kUserDim);
    for (size_t i = 0; i < kKeys.size(); ++i)
      EXPECT_EQ(minibatch.rows(0)[i * kUserDim], job.row("user", Keys(std::vector<int64_t>{kKeys[i]}))[0]);
    EXPECT_EQ(minibatch.rows(1).size(), 2u);
    const auto w = minibatch.parameter(0);
    EXPECT_EQ(std::vector<float>(w.begin(), w.end()),
              (std::vector<float>{0.5f - done, 0.5f - 2 * done, 0.5f - 3 * done}));
    push(std::move(minibatch));
  }
  EXPECT_FALSE(session.lease());
  EXPECT_FALSE(job.result().error);
}

TEST(WorkerSession, WhatIsGivenBackOrDroppedIsLeasedAgain) {
  for (const std::string mode : {"async", "sync"}) {
    RunningJob job({.mode = mode, .minibatches = 6});
    Session session = Session::join_as_worker(job.worker_options());
    session.lease().give_back();
    { const Minibatch dropped = session.lease(); }
    {
      Minibatch pulled = session.lease();
      pull(pulled);
      EXPECT_TRUE(pulled.wait());
    }
    {
      Minibatch under_way = session.lease();
      pull(under_way);
    }
    EXPECT_EQ(work(session), 6u);
    const JobResult result = job.result();
    ASSERT_FALSE(result.error) << result.error->what();
    EXPECT_EQ(result.report.total.examples, 12u);
    EXPECT_EQ(result.report.released, 4u);
    EXPECT_EQ(result.report.workers_lost, 0u);
  }
}

TEST(WorkerSession, ThatIsClosedLeavesItsWorkToOthers) {
  RunningJob job({.minibatches = 8});
  Session first = Session::join_as_worker(job.worker_options());
  Minibatch held = first.lease(), pulled = first.lease();
  pull(pulled);
  ASSERT_TRUE(pulled.wait());
  push(first.lease().number() < 100 ? std::move(pulled) : Minibatch());  // one pushed, one dropped, one held
  first.close();
  EXPECT_TRUE(job.has_event("worker 0 (pid"));
  EXPECT_TRUE(job.has_event("left"));
  expect_error(ErrorCode::kInvalid, {"given back"}, [&] { pull(held); });
  expect_error(ErrorCode::kInvalid, {"left its job"}, [&] { first.lease(); });
  Session second = Session::join_as_worker(job.worker_options());
  EXPECT_EQ(work(second), 7u);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 16u);
  EXPECT_EQ(result.report.workers_lost, 0u);
}

TEST(WorkerSession, MayBeUsedByManyThreads) {
  RunningJob job({.minibatches = 60});
  Session session = Session::join_as_worker(job.worker_options());
  std::atomic<size_t> trained = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) threads.emplace_back([&] { trained += work(session); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(trained, 60u);
  EXPECT_EQ(job.result().report.total.examples, 120u);
}

TEST(WorkerSession, WaitsNoLongerThanItIsTold) {
  RunningJob job({.mode = "sync", .minibatches = 2});
  Session session = Session::join_as_worker(job.worker_options());
  Minibatch first = session.lease();
  EXPECT_FALSE(session.lease_for(50ms)) << "the next one needs the first one's commit";
  pull(first);
  EXPECT_TRUE(first.wait_for(20s));
  EXPECT_TRUE(first.wait());
  push(std::move(first));
  auto second = session.lease_for(20s);
  ASSERT_TRUE(second);
  pull(*second);
  ASSERT_TRUE(second->wait());
  push(std::move(*second));
  const auto over = session.lease_for(20s);
  ASSERT_TRUE(over);
  EXPECT_FALSE(*over);
}

TEST(WorkerSession, GoesOnWithTheNextProcessOfAnOwner) {
  RunningJob job({.mode = "sync", .minibatches = 4, .keeps_journal = true});
  auto options = job.worker_options();
  Session session = Session::join_as_worker(options);
  Minibatch held = session.lease();
  pull(held);
  ASSERT_TRUE(held.wait());
  job.stop_owner(1);
  ASSERT_TRUE(job.has_event("waiting"));
  push(std::move(held));  // one owner takes it, the other one is away
  job.start_owner(1);
  EXPECT_GE(work(session), 3u);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 8u);
}

TEST(WorkerSession, LeavesWhileAnOwnerIsAway) {
  RunningJob job({.keeps_journal = true});
  client::WorkerOptions options = job.worker_options();
  options.timeout = 5s;  // of close(): the master would only see that the connection ends
  Session worker = Session::join_as_worker(options);
  const Minibatch leased = worker.lease();
  job.stop_owner(1);
  ASSERT_TRUE(job.has_event("waiting"));
  std::this_thread::sleep_for(100ms);  // the session hears of it, too
  worker.close();
  EXPECT_TRUE(job.has_event("worker 0 (pid"));
  EXPECT_TRUE(job.has_event("left")) << "what is leased but not pulled needs no owner";
}

TEST(WorkerSession, ThatDiffersFromTheJobIsRefused) {
  RunningJob job;
  const auto refused = [&](std::initializer_list<std::string> parts, const auto& change) {
    client::WorkerOptions options = job.worker_options();
    change(options);
    expect_error(ErrorCode::kMismatch, parts, [&] { Session::join_as_worker(options); });
  };
  refused({"table 'user': dim 2", "dim 3"}, [](auto& o) { o.tables[0].dim = 3; });
  refused({"keys bytes", "keys int64"}, [](auto& o) { o.tables[1].keys = client::KeyType::kInt64; });
  refused({"'w': shape [3]", "shape [4]"}, [](auto& o) { o.parameters[0].shape = {4}; });
  refused({"eight records", "nine records"}, [](auto& o) { o.data = {"nine records"}; });
  Session session = Session::join_as_worker(job.worker_options());
  EXPECT_EQ(work(session), 4u);
}

TEST(WorkerSession, SaysWhatIsWrongWithACall) {
  RunningJob job({.minibatches = 2});
  Session session = Session::join_as_worker(job.worker_options());
  Minibatch minibatch = session.lease();
  const auto wrong = [](std::initializer_list<std::string> parts, const auto& call) {
    expect_error(ErrorCode::kInvalid, parts, call);
  };
  const std::vector<float> user(kKeys.size() * kUserDim, 1), short_user(2), w{1, 2, 3}, scores(2);
  const std::span<const float> rows[] = {user, {}}, parameters[] = {w};
  wrong({"minibatch 0 of epoch 1", "not been pulled"}, [&] { minibatch.rows(0); });
  wrong({"not been pulled"}, [&] { minibatch.wait(); });
  wrong({"not been pulled"}, [&] { minibatch.push(rows, parameters, {}); });
  wrong({"'user' is listed twice"}, [&] {
    const client::TableKeys lists[] = {{.table = "user", .ints = kKeys}, {.table = "user", .ints = kKeys}};
    minibatch.pull(lists);
  });
  wrong({"'user' has int64 keys, but bytes"}, [&] {
    const client::TableKeys lists[] = {{.table = "user", .bytes = kWords}};
    minibatch.pull(lists);
  });
  pull(minibatch);
  ASSERT_TRUE(minibatch.wait());
  wrong({"pulled already"}, [&] { pull(minibatch); });
  wrong({"no list 2"}, [&] { minibatch.rows(2); });
  wrong({"no parameter 1"}, [&] { minibatch.parameter(1); });
  wrong({"1 lists of gradients", "2 lists of keys"}, [&] { minibatch.push({rows, 1}, parameters, {}); });
  wrong({"0 parameters", "the model has 1"}, [&] { minibatch.push(rows, {}, {}); });
  wrong({"table 'user' has 2 floats, but 6"}, [&] {
    const std::span<const float> bad[] = {short_user, {}};
    minibatch.push(bad, parameters, {});
  });
  wrong({"gradient of 'w' has 2 floats, but 3"}, [&] {
    const std::span<const float> bad[] = {short_user};
    minibatch.push(rows, bad, {});
  });
  wrong({"1 scores for 2 examples"}, [&] {
    minibatch.push(rows, parameters, {.examples = 2, .scores = {scores.data(), 1}});
  });
  wrong({"for training"}, [&] { minibatch.finish({}); });
  push(std::move(minibatch));
  wrong({"over"}, [&] { pull(minibatch); });
  EXPECT_EQ(work(session), 1u) << "none of that ended the session";
}

}  // namespace
}  // namespace embers
