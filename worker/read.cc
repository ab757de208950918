#include "worker/read.h"

#include "actors/spawn.h"
#include "worker/step_work.h"

namespace embers {
namespace {

struct ReaderState {
  ReaderState() = default;  // no aggregate: see actors/README.md
  std::unique_ptr<data::MinibatchReader> train, test;
  static inline const char* name = "reader";

  data::MinibatchReader& reader(const Work& work) { return work.evaluate ? *test : *train; }
};

StageActor::behavior_type reader_behavior(StageActor::stateful_pointer<ReaderState> self,
                                          const std::shared_ptr<const data::Dataset>& train,
                                          const std::shared_ptr<const data::Dataset>& test,
                                          std::shared_ptr<const ModelRunner> runner, StageActor next,
                                          StageOwner session) {
  if (train) self->state.train = data::MinibatchReader::make(train, train->job().data.shuffle);
  if (test) self->state.test = data::MinibatchReader::make(test, false);
  return {[=](const WorkPtr& work) {
    stage(session, [&] {
      StopWatch watch;
      StepWork& step = step_work(work);
      step.minibatch = self->state.reader(*work).read(work->origin.epoch, work->origin.minibatch);
      runner->add_columns(step.minibatch);
      work->times[StageTimes::kRead] = watch.lap();
      step.lookups = runner->dedupe(step.minibatch);
      step.show_lookups();
      work->times[StageTimes::kDedupe] = watch.lap();
      work->since_pull.lap();
      work->is_read = true;
      self->send(next, work);
    });
  }};
}

}  // namespace

StageActor spawn_reader(caf::actor_system& system, std::shared_ptr<const data::Dataset> train,
                        std::shared_ptr<const data::Dataset> test, std::shared_ptr<const ModelRunner> runner,
                        StageActor next, StageOwner session) {
  return spawn_with_thread(system, reader_behavior, std::move(train), std::move(test), std::move(runner),
                           std::move(next), std::move(session));
}

}  // namespace embers
