// Whole jobs of a master, real owners, and workers whose every step the test takes.
#include "master/master.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/master/master_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;

TEST(Master, LeasesEveryMinibatchOfEveryEpochAndEnds) {
  for (const auto mode : {job::Mode::kAsync, job::Mode::kSync}) {
    Job job({.mode = mode, .minibatches = 3, .epochs = 2});
    EXPECT_EQ(Worker(job).work_to_the_end(), (std::vector<uint64_t>{0, 1, 2, 0, 1, 2}));
    const JobResult result = job.result();
    ASSERT_FALSE(result.error) << result.error->what();
    EXPECT_EQ(result.report.total.examples, 60);
    EXPECT_EQ(result.report.epochs.size(), 2);
    EXPECT_EQ(result.report.total.loss, 0.5);
    EXPECT_EQ(result.report.total.owners.version, 6);
  }
}

TEST(Master, StartsWhenSoManyWorkersHaveJoined) {
  Job job({.workers = 2});
  Worker first(job);
  auto lease = first.lease_later();
  EXPECT_EQ(lease.wait_for(100ms), std::future_status::timeout);
  Worker second(job);
  EXPECT_EQ(lease.get().get().getKind(), Kinds::TRAIN);
}

TEST(Master, ASyncVersionIsCommittedBeforeTheNextIsLeased) {
  Job job({.mode = job::Mode::kSync, .minibatches = 4, .workers = 2, .grads_to_wait = 2});
  Worker a(job), b(job);
  const Lease first = a.lease(), second = b.lease();
  EXPECT_EQ(first.get().getMinibatches().size(), 1);
  auto third = a.lease_later();
  b.finish(second);
  EXPECT_EQ(third.wait_for(100ms), std::future_status::timeout);
  a.finish(first);
  const Lease next = third.get();
  EXPECT_EQ(next.get().getVersion(), 1);
  EXPECT_EQ(next.get().getMinibatches()[0].getMinibatch(), 2);
}

TEST(Master, LeasesALostWorkersMinibatchesAgainOnceItIsFenced) {
  Job job({.minibatches = 2, .workers = 2});
  auto lost = std::make_unique<Worker>(job);
  Worker other(job);
  const Lease lease = lost->lease();
  lost->push(lease, 0);
  lost.reset();
  EXPECT_EQ(other.work_to_the_end(), (std::vector<uint64_t>{0, 1}));
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 20);
  EXPECT_EQ(result.report.total.owners.duplicates, 1);
  EXPECT_EQ(result.report.workers_lost, 1);
  EXPECT_EQ(result.report.released, 2);
}

TEST(Master, GivesUpOnASilentWorkerAndFencesItsComeback) {
  Job job({.minibatches = 2, .workers = 2, .heartbeat_timeout = 0.4});
  Worker silent(job), other(job);
  const Lease lease = silent.lease();
  auto again = other.lease_later();
  for (int i = 0; i < 200 && again.wait_for(50ms) != std::future_status::ready; ++i) other.beat();
  EXPECT_EQ(again.get().get().getMinibatches()[0].getAttempt(), 2);
  expect_error(ErrorCode::kFenced, {}, [&] { silent.beat(); });
  expect_error(ErrorCode::kFenced, {}, [&] { silent.lease(); });
  expect_error(ErrorCode::kFenced, {}, [&] { silent.push(lease, 0); });
  expect_error(ErrorCode::kFenced, {}, [&] { silent.done(lease, 0); });
  expect_error(ErrorCode::kFenced, {}, [&] { silent.report_failure(ErrorCode::kStaleVersion, "late"); });
  other.beat();
}

TEST(Master, LeasesWhatAWorkerGaveBackOrLeftBehind) {
  Job job({.minibatches = 2, .workers = 2});
  Worker first(job), second(job);
  const Lease lease = first.lease();
  EXPECT_TRUE(first.done(lease, 1, true));
  first.leave();
  EXPECT_EQ(second.work_to_the_end(), (std::vector<uint64_t>{0, 1}));
  EXPECT_FALSE(job.result().error);
}

// An owner refused it as stale: it is computed again, by the worker that asks first, and its version waits
// for it.
TEST(Master, LeasesARefusedMinibatchOfASyncVersionAgainOnTheSameVersion) {
  Job job({.mode = job::Mode::kSync, .minibatches = 4, .workers = 2, .grads_to_wait = 2});
  Worker first(job), second(job);
  const Lease refused = first.lease();
  second.finish(second.lease());
  EXPECT_TRUE(first.done(refused, 0, true));
  const Lease again = second.lease();
  EXPECT_EQ(again.get().getMinibatches()[0].getMinibatch(), 0);
  EXPECT_EQ(again.get().getMinibatches()[0].getAttempt(), 2);
  EXPECT_EQ(again.get().getVersion(), 0);
  EXPECT_FALSE(first.done(refused, 0)) << "the minibatch is no longer its own";
  second.finish(again);
  first.leave();
  EXPECT_EQ(second.work_to_the_end(), (std::vector<uint64_t>{2, 3}));
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.owners.version, 2);
  EXPECT_EQ(result.report.total.examples, 40);
  EXPECT_EQ(result.report.released, 1);
}

TEST(Master, LetsAWorkerJoinLate) {
  Job job({.minibatches = 6});
  Worker first(job);
  const Lease lease = first.lease();
  Worker late(job);
  late.finish(late.lease());
  first.finish(lease);
  late.leave();
  EXPECT_EQ(first.work_to_the_end(), (std::vector<uint64_t>{4, 5}));
  EXPECT_EQ(job.result().report.workers_joined, 2);
}

TEST(Master, RefusesAnotherModelNamingTheDifference) {
  Job job;
  Worker worker(job, false);
  expect_error(ErrorCode::kMismatch, {"table 'a': dim 1", "table 'a': dim 2"}, [&] {
    worker.join(signature({{table("a", 2)}, {}}));
  });
}

TEST(Master, AWorkersErrorEndsTheJobAndTellsTheOthers) {
  Job job({.workers = 2});
  Worker failing(job), waiting(job);
  failing.report_failure(ErrorCode::kInvalid, "adult.data:7: 'x' is no number");
  expect_error(ErrorCode::kJobFailed, {"adult.data:7"}, [&] { waiting.lease(); });
  expect_error(ErrorCode::kJobFailed, {"adult.data:7"}, [&] { failing.beat(); });
  const JobResult result = job.result();
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code(), ErrorCode::kInvalid);
}

TEST(Master, ALostOwnerEndsTheJobNamingTheShard) {
  Job job({.mode = job::Mode::kSync});
  Worker worker(job);
  const Lease lease = worker.lease();
  worker.push(lease, 0);
  end_owner(job.owners_[0]);
  caf::scoped_actor self{job.system_};
  self->wait_for(job.owners_[0].optimizer);
  worker.done(lease, 0);
  expect_error(ErrorCode::kJobFailed, {"lost shard 0"}, [&] { worker.lease(); });
  EXPECT_EQ(job.result().error->code(), ErrorCode::kLost);
}

TEST(Master, TellsWhoWaitsForOrdersThatTheJobFailed) {
  Job job({.workers = 2});
  Worker waiting(job), failing(job);
  auto order = waiting.order_later();
  EXPECT_EQ(order.wait_for(100ms), std::future_status::timeout);
  failing.report_failure(ErrorCode::kInvalid, "adult.data:7: 'x' is no number");
  expect_error(ErrorCode::kJobFailed, {"adult.data:7"}, [&] { order.get(); });
  expect_error(ErrorCode::kJobFailed, {"adult.data:7"}, [&] { waiting.order_later().get(); });
}

TEST(Master, WithoutAnyWorkerFailsAfterAWhile) {
  Job job({.heartbeat_timeout = 0.4, .worker_timeout = 0.3});
  Worker(job).leave();
  const JobResult result = job.result();
  ASSERT_TRUE(result.error);
  EXPECT_NE(std::string(result.error->what()).find("no worker is left"), std::string::npos);
}

TEST(Master, EvaluatesInMinibatchOrder) {
  Job job({.minibatches = 1, .test_minibatches = 6, .workers = 2});
  Worker a(job), b(job);
  a.finish(a.lease());
  const Lease first = a.lease(), second = b.lease();
  EXPECT_EQ(first.get().getKind(), Kinds::EVALUATE);
  b.finish(second);
  a.finish(first);
  b.leave();
  EXPECT_TRUE(a.work_to_the_end().empty());
  const JobResult result = job.result();
  std::vector<uint64_t> order;
  for (const auto& [minibatch, r] : result.evaluation.results()) order.push_back(r.records[0]);
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(result.report.total.auc, 0.5);
}

TEST(MasterStop, BeforeTheStartAnswersWhoWaits) {
  Job job({.workers = 2});
  job.stop();
  const JobResult result = job.result();
  EXPECT_FALSE(result.error);
  EXPECT_EQ(result.report.stopped_by, "SIGINT");
}

TEST(MasterStop, WhileTrainingFinishesWhatIsLeasedAndResumesThere) {
  for (const auto mode : {job::Mode::kAsync, job::Mode::kSync}) {
    TempDir dir;
    const Options options{.mode = mode, .minibatches = 6, .output = dir / "model"};
    uint64_t next = 0;
    {
      Job job(options);
      Worker worker(job);
      worker.finish(worker.lease());
      const Lease lease = worker.lease();
      next = lease.get().getMinibatches()[lease.get().getMinibatches().size() - 1].getMinibatch() + 1;
      job.stop();
      worker.finish(lease);
      EXPECT_TRUE(worker.work_to_the_end().empty());
      EXPECT_FALSE(job.result().error);
    }
    Options resumed = options;
    resumed.resume = dir / "model";
    Job job(resumed);
    EXPECT_EQ(Worker(job).work_to_the_end().front(), next);
    const JobResult result = job.result();
    ASSERT_FALSE(result.error) << result.error->what();
    EXPECT_EQ(result.report.total.owners.examples, 60) << "counted over both runs";
  }
}

TEST(MasterStop, WhenAWorkerIsLostFinishesItsMinibatchesFirst) {
  TempDir dir;
  Job job({.minibatches = 6, .workers = 2, .output = dir / "model"});
  auto lost = std::make_unique<Worker>(job);
  Worker other(job);
  const Lease lease = lost->lease();
  lost->push(lease, 0);
  job.stop();
  lost.reset();
  EXPECT_EQ(other.work_to_the_end(), (std::vector<uint64_t>{0, 1}));
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 20);
}

// The only worker dies after one push to both owners and one to the first owner alone, and nobody says
// "done".
TEST(MasterStop, AfterTheLastWorkerWasLostAppliesNothingTwice) {
  TempDir dir;
  Options options{.minibatches = 6, .output = dir / "model", .shards = 2};
  {
    Job job(options);
    auto lost = std::make_unique<Worker>(job);
    const Lease lease = lost->lease();
    lost->push(lease, 0);
    lost->push_to(0, lease, 1);
    lost.reset();
    job.stop();
    const JobResult result = job.result();
    ASSERT_FALSE(result.error) << result.error->what();
    EXPECT_EQ(result.report.total.examples, 10) << "what all owners applied";
  }
  options.resume = dir / "model";
  {
    Job job(options);
    EXPECT_EQ(Worker(job).work_to_the_end(), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
    const JobResult result = job.result();
    ASSERT_FALSE(result.error) << result.error->what();
    EXPECT_EQ(result.report.total.owners.examples, 60);
    EXPECT_EQ(result.report.total.owners.duplicates, 1) << "the first owner has minibatch 1 already";
  }
  {
    // That job saved at its end, where shards no longer matter.
    options.shards = 1;
    options.epochs = 2;
    Job job(options);
    EXPECT_EQ(Worker(job).work_to_the_end().size(), 6);
    EXPECT_FALSE(job.result().error);
  }
}

TEST(MasterStop, WithAHoleInTheMiddleGoesOnInAsyncModeOnly) {
  TempDir dir;
  Options options{.minibatches = 6, .output = dir / "model", .shards = 2};
  {
    Job job(options);
    auto lost = std::make_unique<Worker>(job);
    const Lease lease = lost->lease();
    lost->push_to(0, lease, 0);
    lost->push(lease, 1);
    lost.reset();
    job.stop();
    EXPECT_FALSE(job.result().error);
  }
  options.resume = dir / "model";
  {
    options.mode = job::Mode::kSync;
    Job job(options);
    Worker worker(job);
    const JobResult result = job.result();
    ASSERT_TRUE(result.error);
    EXPECT_EQ(result.error->code(), ErrorCode::kMismatch);
    const std::string what = result.error->what();
    for (const char* said : {"epoch 1", "missing in the middle", "go on in async mode"})
      EXPECT_NE(what.find(said), std::string::npos) << what;
  }
  options.mode = job::Mode::kBounded;
  Job job(options);
  EXPECT_EQ(Worker(job).work_to_the_end(), (std::vector<uint64_t>{0, 2, 3, 4, 5}));
  EXPECT_FALSE(job.result().error);
}

TEST(Master, ResumedWithNoEpochLeftEvaluatesAndSavesWhatItWasGiven) {
  TempDir dir;
  Options options{.minibatches = 2, .test_minibatches = 1, .output = dir / "first"};
  {
    Job job(options);
    Worker(job).work_to_the_end();
    EXPECT_FALSE(job.result().error);
  }
  options.resume = dir / "first";
  options.output = dir / "second";
  {
    Job job(options);
    EXPECT_EQ(Worker(job).work_to_the_end(), (std::vector<uint64_t>{0})) << "the test set's only minibatch";
    const JobResult result = job.result();
    ASSERT_FALSE(result.error) << result.error->what();
    EXPECT_TRUE(result.report.epochs.empty());
    EXPECT_FALSE(std::isnan(result.report.total.test_loss));
  }
  options.resume = dir / "second";
  options.epochs = 2;
  Job job(options);
  EXPECT_EQ(Worker(job).work_to_the_end(), (std::vector<uint64_t>{0, 1, 0}));
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.owners.examples, 40) << "counted over the first run and this one";
}

TEST(MasterStop, PartOfAMinibatchWantsAsManyShards) {
  TempDir dir;
  Options options{.minibatches = 6, .output = dir / "model", .shards = 2};
  {
    Job job(options);
    auto lost = std::make_unique<Worker>(job);
    lost->push_to(1, lost->lease(), 0);
    lost.reset();
    job.stop();
    EXPECT_FALSE(job.result().error);
  }
  options.resume = dir / "model";
  options.shards = 1;
  Job job(options);
  Worker worker(job);
  const JobResult result = job.result();
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code(), ErrorCode::kMismatch);
  EXPECT_NE(std::string(result.error->what()).find("minibatch 0"), std::string::npos) << result.error->what();
  EXPECT_NE(std::string(result.error->what()).find("2 shards"), std::string::npos) << result.error->what();
}

TEST(Master, RefusesAWorkerWithOtherSettingsNamingThem) {
  Job job({.settings = {"data.shuffle = true", "training.batch_size = 64"}});
  Worker worker(job, false);
  expect_error(ErrorCode::kMismatch, {"training.batch_size = 64 at the master", "training.batch_size = 32"},
               [&] {
                 worker.join({}, {"data.shuffle = true", "training.batch_size = 32"});
               });
  worker.join({}, {"data.shuffle = true", "training.batch_size = 64"});
}

TEST(MasterStop, WhileEvaluatingEndsWithoutItsMetrics) {
  Job job({.minibatches = 1, .test_minibatches = 9});
  Worker worker(job);
  worker.finish(worker.lease());
  const Lease lease = worker.lease();
  job.stop();
  worker.finish(lease);
  EXPECT_TRUE(worker.work_to_the_end().empty());
  const JobResult result = job.result();
  EXPECT_FALSE(result.error);
  EXPECT_TRUE(std::isnan(result.report.total.auc));
}

}  // namespace
}  // namespace embers
