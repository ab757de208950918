// Whole jobs of a master, real owners, and workers whose every step the test takes.
#include "master/master.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>

#include "actors/ask.h"
#include "tests/support/actors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;
using Lease = Message<wire::LeaseReply>;
using Kinds = wire::LeaseReply::Kind;

struct Options {
  data::Mode mode = data::Mode::kAsync;
  uint32_t minibatches = 3, test_minibatches = 0, epochs = 1, workers = 1, grads_to_wait = 1;
  double heartbeat_timeout = 30, worker_timeout = 30;
  std::string output = {}, resume = {};
  uint32_t shards = 1;
  std::vector<std::string> settings = {};
};

class Job {
 public:
  explicit Job(const Options& options = {}) {
    auto config = std::make_shared<MasterConfig>();
    config->run = 7;
    config->model.tables = {table("a", 1)};
    config->dense = config->buffers = std::make_shared<FloatBuffer>();
    data::Job& job = config->job;
    job.job.heartbeat_timeout = options.heartbeat_timeout;
    job.job.worker_timeout = options.worker_timeout;
    job.training.mode = options.mode;
    job.training.epochs = options.epochs;
    job.training.grads_to_wait = options.grads_to_wait;
    job.training.minibatches_per_lease = 2;
    job.storage.buckets = 16;
    config->workers = options.workers;
    config->train_minibatches = options.minibatches;
    config->train_records = 10 * options.minibatches;
    config->shards = options.shards;
    config->settings = options.settings;
    config->test_minibatches = options.test_minibatches;
    config->output = options.output;
    config->resume = options.resume;
    OwnerConfig owner = owner_config(options.mode == data::Mode::kSync, config->model.tables);
    owner.map = even_shard_map(options.shards, 16);
    for (owner.shard = 0; owner.shard < options.shards; ++owner.shard)
      owners_.push_back(spawn_owner(system_, owner));
    config->local_owners = owners_;
    config->on_end = [this](JobResult result) { ended_.set_value(std::move(result)); };
    master_ = spawn_master(system_, config);
  }
  ~Job() {
    caf::anon_send_exit(master_, caf::exit_reason::user_shutdown);
    for (const OwnerHandles& owner : owners_) end_owner(owner);
  }
  JobResult result() {
    if (end_.wait_for(20s) != std::future_status::ready) throw std::runtime_error("the job did not end");
    return end_.get();
  }
  void stop() { caf::anon_send(master_, stop_atom::value, std::string("SIGINT")); }

  System system_;
  std::vector<OwnerHandles> owners_;
  LocalMasterActor master_;
  std::promise<JobResult> ended_;
  std::future<JobResult> end_ = ended_.get_future();
};

class Worker {
 public:
  explicit Worker(Job& job, bool join_now = true) : job_(job), self_(job.system_) {
    if (join_now) join();
  }
  void join(std::vector<std::string> model = {}, const std::vector<std::string>& settings = {}) {
    if (model.empty()) model = signature({{table("a", 1)}, {}});
    const auto reply =
        ask(self_.ptr(), job_.master_, make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
              b.setRole(wire::Role::WORKER);
              b.setHost("here");
              write_texts(b.initModel(static_cast<unsigned>(model.size())), model);
              write_texts(b.initSettings(static_cast<unsigned>(settings.size())), settings);
            }));
    incarnation_ = reply.get().getIncarnation();
  }
  Message<wire::LeaseRequest> lease_request() const {
    return make_message<wire::LeaseRequest>(
        [&](wire::LeaseRequest::Builder b) { b.setIncarnation(incarnation_); });
  }
  Lease lease() { return ask(self_.ptr(), job_.master_, lease_request()); }
  // A lease that may be long in coming.
  std::future<Lease> lease_later() {
    return std::async(std::launch::async, [this, request = lease_request()] {
      caf::scoped_actor other{job_.system_};
      return ask(other.ptr(), job_.master_, request);
    });
  }
  void push(const Lease& lease, unsigned i) {
    for (size_t owner = 0; owner < job_.owners_.size(); ++owner) push_to(owner, lease, i);
  }
  void push_to(size_t owner, const Lease& lease, unsigned i) {
    Origin o = origin(lease.get().getMinibatches()[i].getMinibatch(), lease.get().getVersion(),
                      lease.get().getEpoch(), lease.get().getMinibatches()[i].getAttempt());
    o.incarnation = incarnation_;
    ask(self_.ptr(), job_.owners_[owner].optimizer, make_push(o, {}));
  }
  bool done(const Lease& lease, unsigned i, bool returned = false, float score = 0.5f) {
    const auto part = lease.get().getMinibatches()[i];
    const std::vector<float> scores(10, score), labels(10, static_cast<float>(part.getMinibatch() % 2));
    const std::vector<uint64_t> records(10, part.getMinibatch());
    return ask(self_.ptr(), job_.master_, make_message<wire::DoneRequest>([&](wire::DoneRequest::Builder b) {
                 b.setIncarnation(incarnation_);
                 b.setLease(lease.get().getLease());
                 b.setEpoch(lease.get().getEpoch());
                 b.setMinibatch(part.getMinibatch());
                 b.setAttempt(part.getAttempt());
                 b.setReturned(returned);
                 b.setExamples(10);
                 b.setLossSum(5);
                 b.setScores(as_data(scores));
                 b.setLabels(as_data(labels));
                 b.setRecords(as_data(std::span<const uint64_t>(records)));
               }))
        .get()
        .getAccepted();
  }
  void finish(const Lease& lease) {
    for (unsigned i = 0; i < lease.get().getMinibatches().size(); ++i) {
      if (lease.get().getKind() == Kinds::TRAIN) push(lease, i);
      EXPECT_TRUE(done(lease, i));
    }
  }
  void leave() {
    ask(self_.ptr(), job_.master_, make_message<wire::LeaveRequest>([&](wire::LeaveRequest::Builder b) {
          b.setIncarnation(incarnation_);
        }));
  }
  void beat() {
    ask(self_.ptr(), job_.master_,
        make_message<wire::HeartbeatRequest>(
            [&](wire::HeartbeatRequest::Builder b) { b.setIncarnation(incarnation_); }));
  }
  void report_failure(ErrorCode code, const std::string& message) {
    ask(self_.ptr(), job_.master_, make_message<wire::FailRequest>([&](wire::FailRequest::Builder b) {
          b.setIncarnation(incarnation_);
          b.setCode(static_cast<uint8_t>(code));
          b.setMessage(message);
        }));
  }
  // All work until the end of the job; returns the minibatches it did.
  std::vector<uint64_t> work_to_the_end() {
    std::vector<uint64_t> minibatches;
    for (Lease l = lease(); l.get().getKind() != Kinds::END; l = lease()) {
      for (const auto part : l.get().getMinibatches()) minibatches.push_back(part.getMinibatch());
      finish(l);
    }
    leave();
    return minibatches;
  }

 private:
  Job& job_;
  caf::scoped_actor self_;
  uint64_t incarnation_ = 0;
};

TEST(Master, LeasesEveryMinibatchOfEveryEpochAndEnds) {
  for (const auto mode : {data::Mode::kAsync, data::Mode::kSync}) {
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
  Job job({.mode = data::Mode::kSync, .minibatches = 4, .workers = 2, .grads_to_wait = 2});
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
  Job job({.mode = data::Mode::kSync});
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
  for (const auto mode : {data::Mode::kAsync, data::Mode::kSync}) {
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
