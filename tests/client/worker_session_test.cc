// Programs that compute a running job's gradients by themselves: their threads wait in client::Session, so
// the job behind it is not simulated.
#include <gtest/gtest.h>

#include <thread>

#include "tests/client/session_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;
using client::Minibatch;
using client::Session;

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

// "user" in two lists, the second one pulled later; gradients 1 for all.
TEST_P(Modes, RowsThatAreNeededLaterArePulledLater) {
  RunningJob job({.mode = GetParam(), .minibatches = 1});
  Session session = Session::join_as_worker(job.worker_options());
  const std::vector<int64_t> later{6, 7};
  const std::vector<float> first[] = {job.row("user", Keys(std::vector<int64_t>{5})),
                                      job.row("user", Keys(std::vector<int64_t>{7}))};
  Minibatch minibatch = session.lease();
  pull(minibatch);
  const client::TableKeys more[] = {{.table = "user", .ints = later}};
  expect_error(ErrorCode::kInvalid, {"pull more", "not been waited for"}, [&] { minibatch.pull_more(more); });
  ASSERT_TRUE(minibatch.wait());
  const float* const rows = minibatch.rows(0).data();
  const client::TableKeys wrong[] = {{.table = "user", .bytes = kWords}};
  expect_error(ErrorCode::kInvalid, {"'user'", "byte"}, [&] { minibatch.pull_more(wrong); });
  ASSERT_TRUE(minibatch.pull_more(more));
  EXPECT_EQ(minibatch.rows(0).data(), rows);
  ASSERT_EQ(minibatch.rows(2).size(), 2 * kUserDim);
  EXPECT_EQ(std::vector<float>(minibatch.rows(2).begin() + kUserDim, minibatch.rows(2).end()), first[1]);
  const std::vector<float> user(kKeys.size() * kUserDim, 1), others(2 * kUserDim, 1), scores(2), labels{0, 1};
  const std::span<const float> gradients[] = {user, {}, others}, parameters[] = {{}};
  minibatch.push(gradients, parameters, {.examples = 2, .loss_sum = 3, .scores = scores, .labels = labels});
  EXPECT_FALSE(session.lease());
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  const float step = job.row("user", Keys(std::vector<int64_t>{5}))[0] - first[0][0];
  EXPECT_LT(step, 0);
  EXPECT_FLOAT_EQ(job.row("user", Keys(std::vector<int64_t>{7}))[0] - first[1][0], step);
}

TEST(WorkerSession, ReadsTheParametersThatOwnersHave) {
  RunningJob job({.minibatches = 1});
  Session session = Session::join_as_worker(job.worker_options());
  Minibatch minibatch = session.lease();
  pull(minibatch);
  ASSERT_TRUE(minibatch.wait());
  const std::vector<float> first(minibatch.parameter(0).begin(), minibatch.parameter(0).end());
  EXPECT_EQ(session.parameters(), (std::vector<std::vector<float>>{first}));
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

// Both are pulled before the first one is pushed; a third one after that.
TEST(WorkerSession, ParametersThatWerePulledAheadHaveItsOwnSteps) {
  RunningJob job({.minibatches = 3});
  Session session = Session::join_as_worker(job.worker_options());
  const auto w = [](const Minibatch& m) {
    return std::vector<float>(m.parameter(0).begin(), m.parameter(0).end());
  };
  Minibatch first = session.lease(), second = session.lease();
  for (Minibatch* m : {&first, &second}) {
    pull(*m);
    ASSERT_TRUE(m->wait());
  }
  EXPECT_EQ(w(first), (std::vector<float>{0.5f, 0.5f, 0.5f}));
  push(std::move(first));
  EXPECT_EQ(w(second), (std::vector<float>{-0.5f, -1.5f, -2.5f}));
  EXPECT_EQ(w(second), (std::vector<float>{-0.5f, -1.5f, -2.5f})) << "once";
  push(std::move(second));
  ASSERT_TRUE(session.settle_for(std::chrono::seconds(20)));
  Minibatch third = session.lease();
  pull(third);
  ASSERT_TRUE(third.wait());
  EXPECT_EQ(w(third), (std::vector<float>{-1.5f, -3.5f, -5.5f}));
  push(std::move(third));
  EXPECT_FALSE(session.lease());
  EXPECT_FALSE(job.result().error);
}

// Each is pulled before the one ahead of it is pushed, and answers to pushes are not waited for: the owner
// says which ones the parameters have, so that every step is in them once.
TEST(WorkerSession, ParametersHaveEveryStepOnce) {
  constexpr int kMinibatches = 40;
  RunningJob job({.minibatches = kMinibatches});
  Session session = Session::join_as_worker(job.worker_options());
  Minibatch next = session.lease();
  pull(next);
  for (int done = 0; done < kMinibatches; ++done) {
    Minibatch minibatch = std::move(next);
    if (done + 1 < kMinibatches) {
      next = session.lease();
      pull(next);
    }
    ASSERT_TRUE(minibatch.wait());
    EXPECT_EQ(minibatch.parameter(0)[0], 0.5f - static_cast<float>(done));
    push(std::move(minibatch));
  }
  EXPECT_FALSE(session.lease());
  EXPECT_EQ(job.row(kDenseTable, Keys(std::vector<std::string>{"w#0"}))[0], 0.5f - kMinibatches);
  EXPECT_FALSE(job.result().error);
}

TEST(WorkerSession, SettlesWhenItsPushesHaveArrived) {
  RunningJob job({.mode = "async", .minibatches = 5});
  Session session = Session::join_as_worker(job.worker_options());
  EXPECT_TRUE(session.settle_for(std::chrono::seconds(0))) << "nothing is on its way";
  const float first = job.row("user", Keys(std::vector<int64_t>{5}))[0];
  for (float done = 0; Minibatch minibatch = session.lease(); ++done) {
    pull(minibatch);
    ASSERT_TRUE(minibatch.wait());
    EXPECT_NEAR(minibatch.rows(0)[0], first - done, 1e-5);
    push(std::move(minibatch));
    ASSERT_TRUE(session.settle_for(std::chrono::seconds(60)));
  }
  EXPECT_EQ(job.result().report.total.owners.staleness.max, 0u);
  RunningJob other({.minibatches = 1});
  Session worker = Session::join_as_worker(other.worker_options());
  Session reader = Session::join_as_reader(other.options());
  expect_error(ErrorCode::kInvalid, {"joined as a reader"},
               [&] { reader.settle_for(std::chrono::seconds(0)); });
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

// Else it would be leased, again and again, what it gives back, and never count as one that does nothing.
TEST(WorkerSession, IsLeasedNothingWhileItSaves) {
  RunningJob job({.workers = 2, .minibatches = 8, .lease_timeout = 1.5});
  Session hangs = Session::join_as_worker(job.worker_options()),
          saves = Session::join_as_worker(job.worker_options());
  Minibatch held = hangs.lease(), given_back = saves.lease();
  given_back.give_back();
  const TempDir dir;
  expect_error(ErrorCode::kJobFailed, {"no other worker can compute what is left", "asks for none"},
               [&] { saves.save(dir / "saved"); });
}

TEST(WorkerSession, ComputesWhatASaveWaitsForIfAnotherThreadWantsIt) {
  RunningJob job({.workers = 2, .minibatches = 8, .lease_timeout = 1.5});
  Session hangs = Session::join_as_worker(job.worker_options()),
          saves = Session::join_as_worker(job.worker_options());
  Minibatch held = hangs.lease();
  const TempDir dir;
  std::string why;
  std::thread saver([&] {
    try {
      saves.save(dir / "saved");
    } catch (const Error& e) {
      why = e.what();
    }
  });
  EXPECT_EQ(work(saves), 8u);
  saver.join();
  EXPECT_EQ(why, "");
}

TEST(WorkerSession, GoesOnWhenItIsNotSaved) {
  RunningJob job({.minibatches = 8});
  Session session = Session::join_as_worker(job.worker_options());
  session.lease().give_back();
  expect_error(ErrorCode::kInvalid, {"which directory"}, [&] { session.save(""); });
  EXPECT_EQ(work(session), 8u);
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

using Kind = Session::Draw::Kind;

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

TEST(WorkerSession, ReadsAndImportsWithAMinibatchInHandWhenAnOwnerIsBackAndWhenItIsBackAgain) {
  RunningJob job({.mode = "sync", .minibatches = 4, .keeps_journal = true});
  Session session = Session::join_as_worker(job.worker_options());
  Minibatch held = session.lease();
  pull(held);
  ASSERT_TRUE(held.wait());
  const auto lose_and_start = [&](uint32_t shard) {
    job.stop_owner(shard);
    job.start_owner(shard);
  };
  const std::vector<int64_t> keys{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> rows(keys.size() * kUserDim), imported(rows.size(), 3);
  // What waits until the minibatch is done would end in kTimeout.
  for (const uint32_t shard : {1, 1, 0}) {
    lose_and_start(shard);
    session.lookup("user", std::span<const int64_t>(keys), rows);
  }
  lose_and_start(1);
  session.import_rows({.table = "user", .ints = keys}, imported);
  lose_and_start(0);
  EXPECT_EQ(session.parameters().at(0), (std::vector<float>(3, 0.5f)));
  session.lookup("user", std::span<const int64_t>(keys), rows);
  EXPECT_EQ(rows, imported);
  push(std::move(held));
  EXPECT_GE(work(session), 3u);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
}

TEST(WorkerSession, IsLeasedMoreWithAMinibatchInHandFromBeforeAnOwnerWasLost) {
  RunningJob job({.minibatches = 8, .keeps_journal = true});
  Session session = Session::join_as_worker(job.worker_options());
  Minibatch held = session.lease();
  pull(held);
  ASSERT_TRUE(held.wait());
  job.stop_owner(1);
  ASSERT_TRUE(job.has_event("waiting"));
  job.start_owner(1);
  for (int others = 0; others < 5;) {
    auto other = session.lease_for(20s);
    ASSERT_TRUE(other) << "waits for the one in hand";
    pull(*other);
    if (!other->wait()) continue;
    push(std::move(*other));
    ++others;
  }
  push(std::move(held));  // refused: it was pulled from the lost one
  work(session);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 16u);
}

TEST(WorkerSession, DrawsAgainWhatItGaveBackWhileAnOwnerWasAway) {
  RunningJob job({.minibatches = 4, .keeps_journal = true});
  client::WorkerOptions options = job.worker_options();
  options.window = 2;
  Session session = Session::join_as_worker(options);
  Minibatch drawn = session.draw().minibatch;  // and asks for the next one
  job.stop_owner(1);
  ASSERT_TRUE(job.has_event("waiting"));
  std::this_thread::sleep_for(100ms);  // the session hears of it, too
  drawn.give_back();
  session.give_back_undrawn();
  job.start_owner(1);
  size_t trained = 0;
  for (;;) {
    auto draw = session.draw_for(20s);
    ASSERT_TRUE(draw) << "still waits for what was given back";
    if (draw->kind == Kind::kOver) break;
    if (draw->kind == Kind::kLater) continue;
    if (!draw->minibatch.begin()) continue;
    pull(draw->minibatch);
    if (!draw->minibatch.wait()) continue;
    push(std::move(draw->minibatch));
    ++trained;
  }
  EXPECT_EQ(trained, 4u);
  EXPECT_TRUE(session.settle_for(20s));
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
