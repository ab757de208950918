// Which minibatches pull the dense model, and what the others are computed on: the puller and the trainer of
// a worker between owners and a model whose every answer the test gives, simulated.
#include <gtest/gtest.h>

#include "client/pipeline/pull.h"
#include "tests/client/stage_testing.h"
#include "worker/step_work.h"
#include "worker/train.h"

namespace embers {
namespace {

using namespace testing_support;
using PullPromise = caf::typed_response_promise<Message<wire::PullReply>>;

// An owner at version 100 + its pulls so far, which is also the value of every row it gives, and has the
// asker's steps up to `own_step`. With `alone`, it says that it is at version 100, as if nobody pushed. It
// answers the first `held` pulls only after the one that follows them, last one first.
struct Rows {
  std::vector<TableSpec> tables;
  size_t held = 0;
  std::vector<std::pair<PullPromise, Message<wire::PullReply>>> waiting;
  uint64_t version = 100, own_step = 0;
  bool alone = false;
};

ShardActor::behavior_type scripted_shard(ShardActor::pointer self, std::shared_ptr<Rows> rows) {
  return {
      [self, rows](const Message<wire::PullRequest>& m) -> caf::result<Message<wire::PullReply>> {
        std::vector<RowsShape> shapes;
        for (const TableSlices& t : read_slices(m.get().getTables(), rows->tables.size()))
          shapes.push_back({t.table, rows->tables[t.table].dim, t.keys.size()});
        const uint64_t version = rows->version++;
        auto reply = make_pull_reply(
            rows->alone ? 100 : version, shapes,
            [&](size_t, std::span<float> out) {
              std::fill(out.begin(), out.end(), static_cast<float>(version));
            },
            nullptr, rows->own_step);
        auto promise = self->make_response_promise<Message<wire::PullReply>>();
        rows->waiting.emplace_back(promise, reply);
        if (rows->waiting.size() <= rows->held) return promise;
        for (auto w = rows->waiting.rbegin(); w != rows->waiting.rend(); ++w) w->first.deliver(w->second);
        rows->waiting.clear();
        rows->held = 0;
        return promise;
      },
      [](const Message<wire::RestoreRequest>&) { return make_message<wire::Empty>(); },
      [](const Message<wire::ImportRequest>&) { return make_message<wire::Empty>(); },
      [](const Message<wire::ScanRequest>&) { return make_message<wire::ScanReply>(); },
  };
}

// Notes the first dense value that each pass was given (as its loss) and the row (as its score); every dense
// gradient is 1.
class NotingRunner : public ModelRunner {
 public:
  explicit NotingRunner(ModelSpec spec) : spec_(std::move(spec)) {}
  const ModelSpec& spec() const override { return spec_; }
  Model& model() override { throw std::logic_error("there is none"); }
  void add_columns(data::Minibatch&) const override {}
  Lookups dedupe(const data::Minibatch&) const override { return {}; }
  StepResult train(const data::Minibatch&, const Lookups&, PulledRows rows, const LatePull&) override {
    StepResult result;
    result.loss_sum = rows.dense.span()[0];
    result.scores = {rows.bets.at(0).span()[0]};
    result.dense = FloatBuffer(kDenseChunk);
    std::fill(result.dense.span().begin(), result.dense.span().end(), 1.0f);
    return result;
  }
  StepResult evaluate(const data::Minibatch& m, const Lookups& l, PulledRows rows,
                      const LatePull& late) override {
    return train(m, l, std::move(rows), late);
  }

 private:
  ModelSpec spec_;
};

class LocalSteps : public testing::Test {
 protected:
  void start(
      uint32_t get_model_steps, size_t held = 0,
      const std::function<void(job::Job&)>& set = [](job::Job& job) { job.training.prefetch = 0; }) {
    model_.tables = {table("a", 1), table(kDenseTable, kDenseChunk, KeyKind::kBytes)};
    model_.tables[1].update_rule = {"sgd", {{"learning_rate", 0.5}}};
    model_.dense = {{"w", {kDenseChunk}, false}};
    rows_->tables = model_.tables;
    rows_->held = held;
    caf::actor_system& system = system_;
    auto owners = std::make_shared<Owners>();
    owners->handles = {{OptimizerActor(), system.spawn(scripted_shard, rows_)}};
    shard_ = owners->handles[0].shard;
    owners->map = even_owner_map(1, 16);
    owners->tables = model_.tables;
    job::Job job;
    job.training.get_model_steps = get_model_steps;
    set(job);
    const auto end = system.spawn(collector, finished_);
    worker_ = system.spawn(note_failures, failures_);
    trainer_ = spawn_trainer(system_, std::make_shared<NotingRunner>(model_), owners, job, end, worker_);
    puller_ = spawn_puller(system_, owners, model_, {get_model_steps}, trainer_, worker_);
    collector_ = end;
  }
  ~LocalSteps() override {
    caf::anon_send_exit(puller_, caf::exit_reason::kill);
    caf::anon_send_exit(trainer_, caf::exit_reason::kill);
    caf::anon_send_exit(collector_, caf::exit_reason::kill);
    caf::anon_send_exit(worker_, caf::exit_reason::kill);
    caf::anon_send_exit(shard_, caf::exit_reason::kill);
  }
  void send(uint64_t minibatch, bool evaluate = false) {
    auto work = std::make_shared<StepWork>();
    work->origin = origin(minibatch);
    work->evaluate = evaluate;
    work->lookups.tables = {{0, Keys(std::vector<int64_t>{7})}};
    work->show_lookups();
    caf::anon_send(puller_, WorkPtr(work));
  }
  // The dense value that each work was computed on, in the order in which they came out.
  std::vector<double> computed_on(size_t works) {
    std::vector<double> values;
    system_.settle();
    for (const WorkPtr& work : *finished_) values.push_back(work->report.loss_sum);
    EXPECT_EQ(values.size(), works);
    EXPECT_TRUE(failures_->empty());
    return values;
  }

  const std::shared_ptr<Rows> rows_ = std::make_shared<Rows>();
  Simulation system_;
  ModelSpec model_;
  std::shared_ptr<Finished> finished_ = std::make_shared<Finished>();
  std::shared_ptr<Failures> failures_ = std::make_shared<Failures>();
  ShardActor shard_;
  StageActor puller_, trainer_, collector_;
  StageOwner worker_;
};

TEST_F(LocalSteps, WithoutThemEveryMinibatchPullsTheDenseModel) {
  start(1);
  for (uint64_t m = 0; m < 3; ++m) send(m);
  EXPECT_EQ(computed_on(3), (std::vector<double>{100, 101, 102}));
}

TEST_F(LocalSteps, BetweenPullsTheModelFollowsTheWorkersOwnGradients) {
  start(3);
  for (uint64_t m = 0; m < 7; ++m) send(m);
  EXPECT_EQ(computed_on(7), (std::vector<double>{100, 99.5, 99, 103, 102.5, 102, 106}));
}

TEST_F(LocalSteps, EmbeddingRowsAreAlwaysPulledAndGradientsAreAsStaleAsTheDenseModel) {
  start(3);
  for (uint64_t m = 0; m < 4; ++m) send(m);
  computed_on(4);
  std::vector<uint64_t> versions;
  std::vector<float> rows;
  for (const WorkPtr& work : *finished_) {
    versions.push_back(work->versions[0].value());
    rows.push_back(work->report.scores[0]);
  }
  EXPECT_EQ(rows, (std::vector<float>{100, 101, 102, 103}));
  EXPECT_EQ(versions, (std::vector<uint64_t>{100, 100, 100, 103}));
}

TEST_F(LocalSteps, AnEvaluatedMinibatchPullsTheModelAndSoDoesTheNextOneTrained) {
  start(4);
  send(0);
  send(1, true);
  send(2);
  send(3);
  EXPECT_EQ(computed_on(4), (std::vector<double>{100, 101, 102, 101.5}));
}

TEST_F(LocalSteps, WithoutAnyModelYetAMinibatchGoesBackToTheMaster) {
  start(3);
  const WorkPtr work = std::make_shared<StepWork>();
  work->pulls_dense = false;
  caf::anon_send(trainer_, work);
  system_.settle();
  EXPECT_TRUE(finished_->at(0)->refused);
}

TEST_F(LocalSteps, AnswersOutOfOrderDoNotChangeTheOrderOfMinibatches) {
  start(3, 2);
  for (uint64_t m = 0; m < 3; ++m) send(m);
  EXPECT_EQ(computed_on(3), (std::vector<double>{100, 99.5, 99}));
}

// Three minibatches are pulled before the first one is pushed. The fourth one has the first two of their
// steps.
TEST_F(LocalSteps, WhatWasPulledAheadGetsTheStepsThatItLacks) {
  start(1, 2, [](job::Job& job) { job.training.prefetch = 2; });
  for (uint64_t m = 0; m < 3; ++m) send(m);
  EXPECT_EQ(computed_on(3), (std::vector<double>{103, 104 - 0.5, 105 - 1.0}));
  rows_->own_step = finished_->at(1)->origin.step;
  send(3);
  EXPECT_EQ(computed_on(4).back(), 107 - 0.5);
}

TEST_F(LocalSteps, BetweenPullsAheadTheModelHasThemToo) {
  start(2, 3, [](job::Job& job) { job.training.prefetch = 3; });
  for (uint64_t m = 0; m < 4; ++m) send(m);
  EXPECT_EQ(computed_on(4), (std::vector<double>{104, 103.5, 105 - 1.0, 103.5}));
}

// The three pulls ahead give 100 to 102, the three when the minibatches' turns come 103 to 105.
TEST_F(LocalSteps, WhereOthersPushTooTheModelIsPulledWhenItsTurnComes) {
  start(1, 2, [](job::Job& job) { job.training.prefetch = 2; });
  for (uint64_t m = 0; m < 3; ++m) send(m);
  EXPECT_EQ(computed_on(3), (std::vector<double>{103, 104 - 0.5, 105 - 1.0}));
  std::vector<float> rows;
  for (const WorkPtr& work : *finished_) rows.push_back(work->report.scores[0]);
  EXPECT_EQ(rows, (std::vector<float>{100, 101, 102})) << "embedding rows are not pulled again";
}

TEST_F(LocalSteps, AWorkerThatIsAlonePullsOnce) {
  rows_->alone = true;
  start(1, 0, [](job::Job& job) { job.training.prefetch = 1; });
  for (uint64_t m = 0; m < 20; ++m) {
    send(m);
    computed_on(m + 1);
    rows_->own_step = finished_->back()->origin.step;
  }
  const uint64_t before = rows_->version;
  for (uint64_t m = 20; m < 30; ++m) send(m);
  computed_on(30);
  EXPECT_EQ(rows_->version, before + 10);
}

TEST_F(LocalSteps, AreNotCarriedOverInSyncMode) {
  start(1, 2, [](job::Job& job) { job.training.mode = job::Mode::kSync; });
  for (uint64_t m = 0; m < 3; ++m) send(m);
  EXPECT_EQ(computed_on(3), (std::vector<double>{100, 101, 102}));
}

TEST_F(LocalSteps, AreNotCarriedOverWhereTheyCountLess) {
  start(1, 2, [](job::Job& job) { job.training.staleness_modulation = true; });
  for (uint64_t m = 0; m < 3; ++m) send(m);
  EXPECT_EQ(computed_on(3), (std::vector<double>{100, 101, 102}));
}

}  // namespace
}  // namespace embers
