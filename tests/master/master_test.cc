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
  EXPECT_TRUE(lease.waits());
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
  EXPECT_TRUE(third.waits());
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
  while (again.waits(50ms)) other.beat();
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
  job.system_.settle();
  worker.done(lease, 0);
  expect_error(ErrorCode::kJobFailed, {"lost shard 0"}, [&] { worker.lease(); });
  EXPECT_EQ(job.result().error->code(), ErrorCode::kLost);
}

TEST(Master, TellsWhoWaitsForOrdersThatTheJobFailed) {
  Job job({.workers = 2});
  Worker waiting(job), failing(job);
  auto order = waiting.order_later();
  EXPECT_TRUE(order.waits());
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

TEST(Master, EvaluatesWithSeveralWorkers) {
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
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.auc, 0.5);
  EXPECT_EQ(result.report.total.test_loss, 0.5);
}

// Answers nothing until it is let go, as if it waited for a disk.
class HeldEvaluator {
  using Actor = EvaluatorActor::extend<caf::reacts_to<begin_atom>>;

 public:
  void let_go() { caf::anon_send(state_->actor, begin_atom::value); }
  std::function<EvaluatorActor(caf::actor_system&)> spawner() {
    return [state = state_](caf::actor_system& system) -> EvaluatorActor {
      return state->actor = system.spawn(behavior, state);
    };
  }

 private:
  struct State {
    Actor actor;
    Evaluation evaluation;
    std::vector<std::function<void()>> held;
    bool is_let_go = false;
  };
  template <class T>
  static caf::result<T> answer(Actor::pointer self, State& state, std::function<T()> value) {
    auto promise = self->make_response_promise<T>();
    const std::function<void()> deliver = [=]() mutable { promise.deliver(value()); };
    state.is_let_go ? deliver() : state.held.push_back(deliver);
    return promise;
  }
  static Actor::behavior_type behavior(Actor::pointer self, const std::shared_ptr<State>& state) {
    return {
        [](begin_evaluation_atom, const std::string&) {},
        [=](const Message<wire::DoneRequest>& result) {
          return answer<uint64_t>(self, *state, [=] {
            state->evaluation.add(result);
            return state->evaluation.counted();
          });
        },
        [=](metrics_atom) {
          return answer<Evaluation::Metrics>(self, *state, [=] { return state->evaluation.finish(); });
        },
        [](drop_atom) {},
        [=](begin_atom) {
          state->is_let_go = true;
          for (const auto& deliver : std::exchange(state->held, {})) deliver();
        },
    };
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

TEST(Master, AnswersWhileScoresAreSummedUp) {
  HeldEvaluator evaluator;
  Job job({.minibatches = 1, .test_minibatches = 3, .change = [&](MasterConfig& c) {
             c.spawn_evaluator = evaluator.spawner();
           }});
  Worker worker(job), other(job);
  worker.finish(worker.lease());
  worker.finish(worker.lease());
  worker.beat();
  Worker late(job);
  late.beat();
  EXPECT_FALSE(job.has_ended());
  evaluator.let_go();
  EXPECT_TRUE(worker.work_to_the_end().empty());
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.test_loss, 0.5);
}

TEST(Master, LeasesNoMoreThanItsEvaluatorKeepsUpWith) {
  HeldEvaluator evaluator;
  Job job({.minibatches = 1, .test_minibatches = 5, .change = [&](MasterConfig& c) {
             c.spawn_evaluator = evaluator.spawner();
             c.job.training.batch_size = 1u << 31;  // two of them are under way at most
           }});
  Worker worker(job);
  worker.finish(worker.lease());
  for (uint64_t i = 0; i < 2; ++i) {
    const Lease lease = worker.lease();
    ASSERT_EQ(lease.get().getMinibatches().size(), 1);
    EXPECT_EQ(lease.get().getMinibatches()[0].getMinibatch(), i);
    worker.finish(lease);
  }
  auto next = worker.lease_later();
  worker.beat();
  EXPECT_TRUE(next.waits());
  evaluator.let_go();
  const Lease lease = next.get();
  EXPECT_EQ(lease.get().getMinibatches()[0].getMinibatch(), 2);
  worker.finish(lease);
  EXPECT_EQ(worker.work_to_the_end(), (std::vector<uint64_t>{3, 4}));
  EXPECT_FALSE(job.result().error);
}

TEST(Master, FailsWhenScoresCannotBeSummedUp) {
  const auto full = [](caf::actor_system& system) {
    return system.spawn(
        [](EvaluatorActor::pointer /*self*/, int) -> EvaluatorActor::behavior_type {
          const auto error = [] { return to_caf(Error(ErrorCode::kDisk, "no space left in /tmp")); };
          return {
              [](begin_evaluation_atom, const std::string&) {},
              [=](const Message<wire::DoneRequest>&) -> caf::result<uint64_t> { return error(); },
              [=](metrics_atom) -> caf::result<Evaluation::Metrics> { return error(); },
              [](drop_atom) {},
          };
        },
        0);
  };
  Job job({.minibatches = 1, .test_minibatches = 9, .change = [&](MasterConfig& c) {
             c.spawn_evaluator = full;
           }});
  Worker worker(job);
  worker.finish(worker.lease());
  worker.done(worker.lease(), 0);
  const JobResult result = job.result();
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code(), ErrorCode::kDisk);
  EXPECT_STREQ(result.error->what(), "no space left in /tmp");
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

TEST(Master, ARefusedWorkerDoesNotDecideTheNumericSettingsOfASyncJob) {
  Job job({.mode = job::Mode::kSync, .workers = 2, .settings = {"data.shuffle = true"}});
  Worker refused(job, false), first(job, false), other(job, false), second(job, false);
  expect_error(ErrorCode::kMismatch, {"data.shuffle"},
               [&] { refused.join({}, {"data.shuffle = false"}, {"blas = SKYLAKEX"}); });
  first.join({}, {"data.shuffle = true"}, {"blas = HASWELL"});
  expect_error(ErrorCode::kMismatch, {"blas = HASWELL at the first worker", "blas = SKYLAKEX at worker"},
               [&] { other.join({}, {"data.shuffle = true"}, {"blas = SKYLAKEX"}); });
  second.join({}, {"data.shuffle = true"}, {"blas = HASWELL"});
}

// Owners that join one after another, as the processes of `embers shard --owners` do.
class JoiningOwners {
 public:
  explicit JoiningOwners(uint32_t shards)
      : job_({.shards = shards, .change = [this](MasterConfig& config) {
                owners_ = std::exchange(config.local_owners, {});
                config.connect_owner = [this](const auto&...) { return owners_.at(connected_++); };
              }}) {}

  // The process with this number joins with one owner, `more` of its owners come after it.
  void join(uint64_t pid, uint32_t more) {
    connections_.push_back(std::make_unique<caf::scoped_actor>(job_.system_));
    ask(connections_.back()->ptr(), job_.master_,
        make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
          b.setRole(wire::Role::OWNER);
          b.setHost("there");
          b.setPid(pid);
          b.setMore(more);
        }));
  }

 private:
  std::vector<OwnerHandles> owners_;
  size_t connected_ = 0;
  Job job_;
  std::vector<std::unique_ptr<caf::scoped_actor>> connections_;  // end before the job
};

// Otherwise its first owner would have joined when its second is refused, and the job would lose that one.
TEST(Master, RefusesAShardProcessForWhichOthersThatAreStillJoiningLeaveTooFewPlaces) {
  JoiningOwners owners(3);
  owners.join(1, 1);
  expect_error(ErrorCode::kInvalid,
               {"3 shards, of which 2 have not joined yet", "still joining: 1", "2 owners"},
               [&] { owners.join(2, 1); });
  owners.join(3, 0);
  expect_error(ErrorCode::kInvalid, {"1 has not joined yet", "still joining: 1", "1 owner does not fit"},
               [&] { owners.join(4, 0); });
  owners.join(1, 0);
  expect_error(ErrorCode::kInvalid, {"all have joined"}, [&] { owners.join(4, 0); });
}

// Nothing has been computed with its settings.
TEST(Master, AWorkerThatLeavesBeforeASyncJobStartsDoesNotDecideTheNumericSettings) {
  Job job({.mode = job::Mode::kSync, .workers = 2});
  Worker gone(job, false), first(job, false), second(job, false);
  gone.join({}, {}, {"blas = SKYLAKEX"});
  gone.leave();
  first.join({}, {}, {"blas = HASWELL"});
  second.join({}, {}, {"blas = HASWELL"});
  first.leave();
  expect_error(ErrorCode::kMismatch, {"blas = HASWELL at the first worker"},
               [&] { Worker(job, false).join({}, {}, {"blas = SKYLAKEX"}); });
}

TEST(Master, SaysOfNoRefusedWorkerThatItsNumericSettingsDiffer) {
  std::string events;
  Job job({.workers = 2, .settings = {"data.shuffle = true"}, .change = [&](MasterConfig& config) {
             config.on_event = [&](const std::string& line) { events += line + '\n'; };
           }});
  Worker first(job, false), refused(job, false), second(job, false);
  first.join({}, {"data.shuffle = true"}, {"blas = HASWELL"});
  expect_error(ErrorCode::kMismatch, {"data.shuffle"},
               [&] { refused.join({}, {"data.shuffle = false"}, {"blas = SKYLAKEX"}); });
  second.join({}, {"data.shuffle = true"}, {"blas = ZEN"});
  EXPECT_EQ(events.find("SKYLAKEX"), std::string::npos) << events;
  EXPECT_NE(events.find("blas = HASWELL at the first worker, blas = ZEN at"), std::string::npos) << events;
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
