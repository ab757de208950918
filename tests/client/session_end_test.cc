// The end of client::Session: nothing of it is left, whatever the program still has of it and whatever became
// of its job.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "tests/client/running_job.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;
using client::Minibatch;
using client::Session;

const std::vector<int64_t> kKeys{5, -3, 1000003};

void pull(Minibatch& minibatch) {
  const client::TableKeys lists[] = {{.table = "user", .ints = kKeys}};
  minibatch.pull(lists);
}

void lookup(Session& session) {
  std::vector<float> rows(kKeys.size() * kUserDim);
  session.lookup("user", kKeys, rows);
}

size_t threads() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// Whether the call returns; one that does not is left behind.
bool returns(std::function<void()> call) {
  std::promise<void> done;
  auto ended = done.get_future();
  std::thread([call = std::move(call), done = std::move(done)]() mutable {
    call();
    call = nullptr;
    done.set_value();
  }).detach();
  return ended.wait_for(60s) == std::future_status::ready;
}

TEST(SessionEnd, DoesNotWaitForThreadsThatUsedTheSession) {
  RunningJob job;
  auto session = std::make_shared<Session>(Session::join_as_worker(job.worker_options()));
  std::promise<void> has_used, may_go;
  std::thread user([&] {
    lookup(*session);
    session->parameters();
    Minibatch minibatch = session->lease();
    pull(minibatch);
    ASSERT_TRUE(minibatch.wait());
    const std::vector<int64_t> later{6, 7};
    const client::TableKeys more[] = {{.table = "user", .ints = later}};
    ASSERT_TRUE(minibatch.pull_more(more));
    minibatch.give_back();
    has_used.set_value();
    may_go.get_future().wait();
  });
  has_used.get_future().wait();
  EXPECT_TRUE(returns([session = std::move(session)] {})) << "a thread that looked rows up is still there";
  may_go.set_value();
  user.join();
}

TEST(SessionEnd, LeavesNoThreadsToWhatIsStillThere) {
  RunningJob job;
  std::vector<Minibatch> minibatches;
  std::vector<Session> sessions;
  size_t first = 0;
  for (int i = 0; i < 4; ++i) {
    Session session = Session::join_as_worker(job.worker_options());
    if (i == 0) first = threads();  // its own, and what else there is: each session has some of its own
    minibatches.push_back(session.lease());
    session.close();
    sessions.push_back(std::move(session));
  }
  EXPECT_TRUE(wait_until([&] { return threads() <= first; }, 20)) << threads() << " threads, " << first;
  for (Minibatch& minibatch : minibatches)
    expect_error(ErrorCode::kInvalid, {"was closed"}, [&] { pull(minibatch); });
  for (Session& session : sessions) {
    expect_error(ErrorCode::kInvalid, {"left its job", "join again"}, [&] { lookup(session); });
    EXPECT_EQ(session.table("user").dim, kUserDim) << "what it knows, it still says";
    session.close();
  }
}

TEST(SessionEnd, ComesAlthoughMasterAndOwnersAreGone) {
  RunningJob job({.keeps_journal = true});
  client::WorkerOptions options = job.worker_options();
  options.timeout = 2s;
  auto session = std::make_shared<Session>(Session::join_as_worker(options));
  Minibatch held = session->lease(), asked = session->lease();
  pull(held);
  ASSERT_TRUE(held.wait());
  for (const uint32_t shard : {0, 1}) job.stop_owner(shard);
  pull(asked);
  job.lose_master();
  EXPECT_TRUE(returns([session = std::move(session)] {}));
}

TEST(SessionEnd, MayComeWhileCallsAreUnderWay) {
  RunningJob job;
  auto session = std::make_shared<Session>(Session::join_as_worker(job.worker_options()));
  std::atomic<int> looked = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&looked, session] {
      try {
        for (;; ++looked) lookup(*session);
      } catch (const Error&) {  // it has left its job, or this connection ended
      }
    });
  ASSERT_TRUE(wait_until([&] { return looked > 10; }, 20));
  EXPECT_TRUE(returns([session] { session->close(); }));
  EXPECT_TRUE(returns([session] { session->close(); })) << "and again";
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace embers
