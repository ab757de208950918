#include "worker/train.h"

#include "worker/pull.h"

namespace embers {
namespace {

struct TrainerState {
  TrainerState() = default;  // no aggregate: see actors/README.md
  bool threads_set = false;
  static inline const char* name = "trainer";
};

void compute(caf::actor_system& system, ModelRunner& runner, const Owners& owners, Work& work) {
  const ModelRunner::LatePull late = [&](TableId table, KeysView keys, std::span<float> out) {
    caf::scoped_actor self{system};
    try {
      pull_now(self, owners, work, table, keys, out);
    } catch (const Error& e) {
      work.refused = remedy(e.code()) == Remedy::kRefresh;
      throw;
    }
    ++work.late_pulls;
  };
  try {
    work.result = work.evaluate ? runner.evaluate(work.minibatch, work.lookups, std::move(work.rows), late)
                                : runner.train(work.minibatch, work.lookups, std::move(work.rows), late);
  } catch (const Error&) {
    if (!work.refused) throw;
  }
}

StageActor::behavior_type trainer_behavior(StageActor::stateful_pointer<TrainerState> self,
                                           std::shared_ptr<ModelRunner> runner,
                                           std::shared_ptr<const Owners> owners, uint32_t threads,
                                           StageActor next, StageOwner worker) {
  return {[=](const WorkPtr& work) {
    stage(worker, [&] {
      // Thread counts belong to the thread that computes: this actor's own.
      if (!std::exchange(self->state.threads_set, true)) set_threads(threads);
      if (!work->refused) compute(self->system(), *runner, *owners, *work);
      self->send(next, work);
    });
  }};
}

}  // namespace

StageActor spawn_trainer(caf::actor_system& system, std::shared_ptr<ModelRunner> runner,
                         std::shared_ptr<const Owners> owners, uint32_t threads, StageActor next,
                         StageOwner worker) {
  return system.spawn<caf::detached>(trainer_behavior, std::move(runner), std::move(owners), threads,
                                     std::move(next), std::move(worker));
}

}  // namespace embers
