#include "worker/train.h"

#include <algorithm>

#include "actors/spawn.h"
#include "client/pipeline/own_steps.h"
#include "client/pipeline/pull.h"
#include "worker/step_work.h"

namespace embers {
namespace {

// The dense parameters that a minibatch is computed on: those that were pulled, with this worker's own steps
// which they lack; or between two pulls of them (training.get_model_steps) the local model.
class LocalSteps {
 public:
  LocalSteps(const TableSpec& dense, std::vector<size_t> owners, std::optional<OwnSteps> own)
      : model_(dense), own_(std::move(own)), owners_(std::move(owners)) {}

  // Replaces the local model with what was pulled, or gives the work the local model. A work that comes
  // before any model was pulled is refused. Where others push, too, pull_dense() gets the latest parameters.
  template <class PullDense>
  void prepare(Work& work, const PullDense& pull_dense) {
    if (work.evaluate || work.refused) return;
    if (work.pulls_dense) {
      if (own_) {
        own_->note(work);
        if (own_->others_push()) pull_dense();
        if (work.refused) return;
        own_->add_to(work, owners_);
      }
      model_.replace(work.rows.dense.span());
      versions_ = work.versions;
    } else if (model_.empty()) {
      work.refused = true;
    } else {
      work.rows.dense = model_.values();
      // Its gradients are as stale as the older of what they were computed on.
      for (const size_t owner : owners_)
        if (versions_[owner]) work.read_of(owner, *versions_[owner]);
    }
  }

  // Before the work is handed on.
  void update(Work& work) {
    if (work.evaluate || work.refused) return;
    std::vector<float> change = model_.update(work.dense, work.newest_version() + 1);
    if (own_) own_->keep(work, std::move(change));
  }

 private:
  LocalModel model_;
  std::optional<OwnSteps> own_;
  std::vector<std::optional<uint64_t>> versions_;  // of each owner, at the last pull
  std::vector<size_t> owners_;                     // of each chunk of dense parameters
};

// Null where minibatches are computed on just what was pulled for them.
std::unique_ptr<LocalSteps> local_steps(const job::Job& job, const ModelSpec& model, const Owners& owners) {
  const auto dense = std::find_if(model.tables.begin(), model.tables.end(),
                                  [](const TableSpec& t) { return t.name == kDenseTable; });
  if (dense == model.tables.end()) return nullptr;
  std::optional<OwnSteps> own;
  if (OwnSteps::are_carried(job, *dense)) own.emplace(job.training.prefetch);
  if (!own && job.training.get_model_steps == 1) return nullptr;
  return std::make_unique<LocalSteps>(*dense, dense_owners(model, owners.map), std::move(own));
}

struct TrainerState {
  TrainerState() = default;  // no aggregate: see actors/README.md
  bool threads_set = false;
  StopWatch watch;                    // since the last minibatch
  std::unique_ptr<LocalSteps> local;  // null without
  std::optional<DenseKeys> keys;
  static inline const char* name = "trainer";
};

// Pulls for a work in the thread of the caller; the work is refused if it must be given back.
template <class Pull>
void pull_late(caf::actor_system& system, const Owners& owners, Work& work, const Pull& pull) {
  caf::scoped_actor self{system};
  try {
    pull(self);
  } catch (const Error& e) {
    is_given_back(owners, work, e);
    throw;
  }
}

// Runs a step of a work, which is over when the work is refused.
template <class Step>
void unless_refused(Work& work, const Step& step) {
  try {
    step();
  } catch (const Error&) {
    if (!work.refused) throw;
  }
}

void compute(caf::actor_system& system, ModelRunner& runner, const Owners& owners, StepWork& work) {
  const ModelRunner::LatePull late = [&](TableId table, KeysView keys, std::span<float> out) {
    pull_late(system, owners, work, [&](auto& self) {
      pull_now(self, owners, work, {{table, keys}}, {out});
    });
    ++work.late_pulls;
  };
  unless_refused(work, [&] {
    work.result = work.evaluate ? runner.evaluate(work.minibatch, work.lookups, std::move(work.rows), late)
                                : runner.train(work.minibatch, work.lookups, std::move(work.rows), late);
    work.show_result();
  });
}

StageActor::behavior_type trainer_behavior(StageActor::stateful_pointer<TrainerState> self,
                                           std::shared_ptr<ModelRunner> runner,
                                           std::shared_ptr<const Owners> owners, const job::Job& job,
                                           StageActor next, StageOwner session) {
  self->state.local = local_steps(job, runner->spec(), *owners);
  self->state.keys.emplace(runner->spec());
  const uint32_t threads = job.training.threads;
  return {[=](const WorkPtr& work) {
    stage(session, [&] {
      // Thread counts belong to the thread that computes: this actor's own.
      if (!std::exchange(self->state.threads_set, true)) set_threads(threads);
      const auto pull_dense = [&] {
        unless_refused(*work, [&] {
          pull_late(self->system(), *owners, *work,
                    [&](auto& asker) { pull_dense_again(asker, *owners, *work, self->state.keys->dense); });
        });
      };
      LocalSteps* const local = self->state.local.get();
      if (local) local->prepare(*work, pull_dense);
      work->times[StageTimes::kWait] = self->state.watch.lap();
      if (!work->refused) compute(self->system(), *runner, *owners, step_work(work));
      if (local) local->update(*work);
      work->times[StageTimes::kTrain] = self->state.watch.lap();
      self->send(next, work);
    });
  }};
}

}  // namespace

StageActor spawn_trainer(caf::actor_system& system, std::shared_ptr<ModelRunner> runner,
                         std::shared_ptr<const Owners> owners, const job::Job& job, StageActor next,
                         StageOwner session) {
  return spawn_with_thread(system, trainer_behavior, std::move(runner), std::move(owners), job,
                           std::move(next), std::move(session));
}

}  // namespace embers
