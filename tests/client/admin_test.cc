// Steering a running job from a program: its threads wait in client::Admin, so the job behind it is not
// simulated.
#include "client/admin.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/client/running_job.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_proxy.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;
using client::Admin;
using client::AdminOptions;
using client::Session;

AdminOptions options_of(const RunningJob& job) {
  AdminOptions options;
  static_cast<client::Options&>(options) = job.options();
  return options;
}

TEST(Admin, SeesMembersAndDrainsPrograms) {
  RunningJob job({.workers = 2, .minibatches = 100000});
  Admin admin(options_of(job));
  EXPECT_EQ(admin.status().phase, "gathering");
  Session first = Session::join_as_worker(job.worker_options()),
          second = Session::join_as_worker(job.worker_options());
  const Status before = admin.status();
  EXPECT_EQ(before.job, "job.toml");
  EXPECT_EQ(before.id, 7u);
  EXPECT_EQ(before.workers.wanted, 2u);
  EXPECT_EQ(before.workers.joined, 2u);
  EXPECT_EQ(before.members.size(), 4u) << "and two shards";
  admin.scale(1);
  EXPECT_EQ(admin.status().workers.joined, 1u);
  bool over = false;  // what it holds is to be finished or given back
  for (int i = 0; i < 1000 && !over; ++i) over = !second.lease();
  EXPECT_TRUE(over) << "as when the job has no more work";
  second.close();
  EXPECT_TRUE(job.has_event("worker 1"));
  EXPECT_TRUE(wait_until([&] { return admin.status().members.size() == 3; }));
  EXPECT_TRUE(first.lease()) << "the other one goes on";
  expect_error(ErrorCode::kInvalid, {"worker 1", "the job has worker 0"}, [&] { admin.drain({"worker 1"}); });
  admin.stop(true);
  EXPECT_NE(admin.status().stopping, "");
}

TEST(Admin, ConnectsAgainByItself) {
  RunningJob job;
  const TempDir dir;
  const std::string path = dir / "network";
  AdminOptions options = options_of(job);
  options.master = "unix:" + path;
  std::optional<FaultyProxy> network(std::in_place, job.address(), options.master);
  Admin admin(options);
  for (uint32_t workers = 2; workers < 5; ++workers) {
    admin.scale(workers);
    EXPECT_EQ(admin.status().workers.wanted, workers);
    network.reset();
    std::filesystem::remove(path);
    expect_error(ErrorCode::kUnreachable, {path}, [&] { admin.status(); });
    network.emplace(job.address(), options.master);
  }
}

TEST(Admin, MayBeUsedBySeveralThreads) {
  RunningJob job;
  Admin admin(options_of(job));
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        admin.scale(1 + t);
        good += admin.status().workers.wanted <= 4;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 80);
}

TEST(Admin, SaysThatNobodyIsThere) {
  std::string gone;
  {
    RunningJob job;
    gone = job.address();
    Admin admin(options_of(job));
    admin.status();
    job.end_master();
    try {
      admin.status();
      ADD_FAILURE() << "somebody answered";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kEnded) << e.what();
    }
    expect_error(ErrorCode::kUnreachable, {gone, "not there"}, [&] { admin.status(); });
  }
  Admin late(AdminOptions{{.master = gone}});
  expect_error(ErrorCode::kUnreachable, {gone, "not there"}, [&] { late.scale(2); });
}

TEST(Admin, GivesUpOnAMasterThatDoesNotAnswer) {
  RunningJob job;
  AdminOptions options = options_of(job);
  options.timeout = 0.2s;
  Admin admin(options), patient(options_of(job));
  const auto is_answered = [&] {  // in time
    try {
      admin.status();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  ASSERT_TRUE(wait_until(is_answered));
  job.hold();
  std::thread joins([&] {  // an event, at which the master is stuck
    Admin(options_of(job)).scale(3);
  });
  EXPECT_TRUE(wait_until([&] { return job.is_held(); }));
  expect_error(ErrorCode::kTimeout, {job.address(), "does not answer"}, [&] { admin.status(); });
  job.release();
  joins.join();
  EXPECT_EQ(patient.status().workers.wanted, 3u);
}

TEST(Admin, IsToldWhatIsMissing) {
  expect_error(ErrorCode::kInvalid, {"where is the master?", "AdminOptions::master", "EMBERS_JOB_DIR"},
               [] { Admin admin({}); });
  expect_error(ErrorCode::kInvalid, {"not both"},
               [] { Admin admin(AdminOptions{{.master = "127.0.0.1:9", .job_dir = "/tmp"}}); });
  expect_error(ErrorCode::kInvalid, {"HOST:PORT"}, [] { Admin admin(AdminOptions{{.master = "nonsense"}}); });
}

}  // namespace
}  // namespace embers
