// A sync job in which a worker dies after it pushed a minibatch to one owner and before it pushed it to the
// other.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>

#include "actors/errors.h"
#include "actors/owner/owner.h"
#include "data/dataset.h"
#include "master/master.h"
#include "model/step.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "worker/worker.h"

namespace embers::testing_support {
namespace {

constexpr int kRecords = 240;

std::string job_text(const std::string& dir) {
  return "[model]\nname = \"wide_deep\"\n[data]\ndir = \"" + dir +
         "\"\ntrain = \"train.csv\"\ncolumns = [ {name=\"a\", type=\"string\"}, {name=\"b\", type=\"int\"},"
         " {name=\"label\", type=\"label\", positive=\"1\"} ]\n"
         "[optimizer]\nname = \"adam\"\n[training]\nmode = \"sync\"\nbatch_size = 10\ngrads_to_wait = 3\n"
         "epochs = 2\n[storage]\nshards = 2\n";
}

// An owner's optimizer that forwards `pushes` pushes, then swallows one and calls `kill` instead.
OptimizerActor deadly_optimizer(caf::actor_system& system, const OptimizerActor& real, int pushes,
                                std::function<void()> kill) {
  auto left = std::make_shared<int>(pushes);
  const auto behavior = [=](OptimizerActor::pointer self,
                            const OptimizerActor& real) -> OptimizerActor::behavior_type {
    return {
        [=](const Message<wire::PushRequest>& m) -> caf::result<Message<wire::PushReply>> {
          if ((*left)-- > 0) return self->delegate(real, m);
          kill();
          return self->make_response_promise<Message<wire::PushReply>>();
        },
        [=](const Message<wire::NormsRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::CommitRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::FenceRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::MapRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::StatsRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::ResumeRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::EndRequest>& m) { return self->delegate(real, m); },
    };
  };
  return system.spawn(behavior, real);
}

// Runs the job with two workers; with `kill`, the first one dies between its two pushes of a minibatch.
// Returns the row dump.
std::string run(const TempDir& dir, bool kill, Report* report) {
  caf::actor_system_config settings;
  settings.set("scheduler.policy", caf::atom("sharing"));
  caf::actor_system system(settings);
  const job::Job job = job::parse_job({"job.toml", job_text(dir.path().string()), {}});
  const std::shared_ptr<const data::Dataset> train = data::Dataset::open(job, data::Split::kTrain, "");
  const std::shared_ptr<ModelRunner> runner = ModelRunner::make(job);

  auto config = std::make_shared<MasterConfig>();
  config->job = job;
  config->run = 7;
  config->model = runner->spec();
  config->dense = std::make_shared<FloatBuffer>(dense_values(runner->model(), config->model, false));
  config->buffers = std::make_shared<FloatBuffer>(dense_values(runner->model(), config->model, true));
  config->workers = config->shards = 2;
  config->train_minibatches = train->minibatches();
  config->train_records = train->records();
  config->dump_rows = dir / "rows";
  for (uint32_t s = 0; s < 2; ++s) {
    OwnerConfig owner;
    owner.job = config->run;
    owner.number = s;
    owner.seed = job.job.seed;
    owner.sync = true;
    owner.tables = config->model.tables;
    owner.map = even_owner_map(2, job.storage.buckets);
    config->local_owners.push_back(spawn_owner(system, owner));
  }
  std::promise<JobResult> ended;
  std::once_flag once;
  const auto end = [&](JobResult result) {
    std::call_once(once, [&] { ended.set_value(std::move(result)); });
  };
  config->on_end = end;
  const auto master = caf::actor_cast<MasterActor>(spawn_master(system, config));

  WorkerActor victim;
  std::vector<std::shared_ptr<WorkerConfig>> workers;
  for (int w = 0; w < 2; ++w) {
    auto c = workers.emplace_back(std::make_shared<WorkerConfig>());
    c->job = job;
    c->run = config->run;
    c->master = master;
    c->master_name = "the master";
    c->runner = w == 0 ? runner : ModelRunner::make(job);
    c->train = train;
    c->on_end = [&](std::optional<Error> error) {
      if (error) end({std::move(error), {}});
    };
    c->connect_owner = [&, w, kill](size_t number, const auto&, const auto&, uint64_t) {
      OwnerHandles handles = config->local_owners[number];
      if (kill && w == 0 && number == 1)
        handles.optimizer = deadly_optimizer(system, handles.optimizer, 4,
                                             [&] { caf::anon_send_exit(victim, caf::exit_reason::kill); });
      return handles;
    };
    const WorkerActor worker = spawn_worker(system, c);
    if (w == 0) victim = worker;
  }
  JobResult result = ended.get_future().get();
  EXPECT_FALSE(result.error) << result.error->what();
  *report = result.report;
  for (const OwnerHandles& owner : config->local_owners) end_owner(owner);
  return read_file(dir / "rows");
}

TEST(SyncJob, WorkerKilledBetweenItsPushesToTwoOwnersLeavesNoTrace) {
  TempDir dir;
  std::ofstream data(dir / "train.csv");
  for (int i = 0; i < kRecords; ++i)
    data << "k" << i % 17 << "," << i % 29 << "," << (i * 7 % 10 < 3) << "\n";
  data.close();
  Report undisturbed, disturbed;
  const std::string expected = run(dir, false, &undisturbed);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(run(dir, true, &disturbed), expected);
  EXPECT_EQ(undisturbed.workers_lost, 0u);
  EXPECT_EQ(disturbed.workers_lost, 1u);
  EXPECT_GE(disturbed.released, 1u);
  EXPECT_EQ(disturbed.total.examples, 2u * kRecords);
}

}  // namespace
}  // namespace embers::testing_support
