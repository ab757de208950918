#include "worker/train.h"

#include <algorithm>

#include "actors/routing/local_model.h"
#include "actors/spawn.h"
#include "client/pipeline/pull.h"
#include "worker/step_work.h"

namespace embers {
namespace {

// The dense parameters that a minibatch is computed on: those that were pulled, with this worker's own steps
// which they cannot have yet; or between two pulls of them (training.get_model_steps) the local model.
class LocalSteps {
 public:
  // `carries`: own steps are carried over.
  LocalSteps(const ModelSpec& model, const Owners& owners, bool carries)
      : model_(model.tables[model.table_id(kDenseTable)], carries), holds_dense_(owners.handles.size()) {
    const Keys keys = DenseKeys(model).dense;
    for (size_t i = 0; i < keys.size(); ++i) holds_dense_[owner_of(owners.map, hash_key(keys, i))] = true;
  }

  // Replaces the local model with what was pulled, or gives the work the local model. A work that comes
  // before any model was pulled is refused.
  void prepare(Work& work) {
    if (work.evaluate || work.refused) return;
    if (work.pulls_dense) {
      model_.carry_over(work.pulled, work.rows.dense.span());
      model_.replace(work.rows.dense.span());
      versions_ = work.versions;
    } else if (model_.empty()) {
      work.refused = true;
    } else {
      work.rows.dense = model_.values();
      // Its gradients are as stale as the older of what they were computed on.
      for (size_t owner = 0; owner < holds_dense_.size(); ++owner)
        if (holds_dense_[owner] && versions_[owner]) work.read_of(owner, *versions_[owner]);
    }
  }

  // Before the work is handed on, and its gradients are pushed.
  void update(const Work& work) {
    if (work.evaluate || work.refused) return;
    model_.update(work.dense, work.newest_version() + 1);
  }

 private:
  LocalModel model_;
  std::vector<std::optional<uint64_t>> versions_;  // of each owner, at the last pull
  std::vector<bool> holds_dense_;                  // by owner
};

struct TrainerState {
  TrainerState() = default;  // no aggregate: see actors/README.md
  bool threads_set = false;
  StopWatch watch;                    // since the last minibatch
  std::unique_ptr<LocalSteps> local;  // null without
  static inline const char* name = "trainer";
};

void compute(caf::actor_system& system, ModelRunner& runner, const Owners& owners, StepWork& work) {
  const ModelRunner::LatePull late = [&](TableId table, KeysView keys, std::span<float> out) {
    caf::scoped_actor self{system};
    try {
      pull_now(self, owners, work, {{table, keys}}, {out});
    } catch (const Error& e) {
      is_given_back(owners, work, e);
      throw;
    }
    ++work.late_pulls;
  };
  try {
    work.result = work.evaluate ? runner.evaluate(work.minibatch, work.lookups, std::move(work.rows), late)
                                : runner.train(work.minibatch, work.lookups, std::move(work.rows), late);
    work.show_result();
  } catch (const Error&) {
    if (!work.refused) throw;
  }
}

StageActor::behavior_type trainer_behavior(StageActor::stateful_pointer<TrainerState> self,
                                           std::shared_ptr<ModelRunner> runner,
                                           std::shared_ptr<const Owners> owners, uint32_t threads,
                                           uint32_t get_model_steps, bool carries, StageActor next,
                                           StageOwner session) {
  const auto& tables = runner->spec().tables;
  const bool has_dense =
      std::any_of(tables.begin(), tables.end(), [](const TableSpec& t) { return t.name == kDenseTable; });
  if (has_dense && (get_model_steps > 1 || carries))
    self->state.local = std::make_unique<LocalSteps>(runner->spec(), *owners, carries);
  return {[=](const WorkPtr& work) {
    stage(session, [&] {
      // Thread counts belong to the thread that computes: this actor's own.
      if (!std::exchange(self->state.threads_set, true)) set_threads(threads);
      work->times[StageTimes::kWait] = self->state.watch.lap();
      LocalSteps* const local = self->state.local.get();
      if (local) local->prepare(*work);
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
  const bool carries = carries_own_steps(job, runner->spec().tables);
  return spawn_with_thread(system, trainer_behavior, std::move(runner), std::move(owners),
                           job.training.threads, job.training.get_model_steps, carries, std::move(next),
                           std::move(session));
}

}  // namespace embers
