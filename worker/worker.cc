#include "worker/worker.h"

#include "worker/read.h"
#include "worker/step_work.h"
#include "worker/train.h"

namespace embers {

WorkerActor spawn_worker(caf::actor_system& system, std::shared_ptr<const WorkerConfig> worker) {
  auto config = std::make_shared<SessionConfig>(*worker);
  config->role = wire::Role::WORKER;
  config->model = worker->runner->spec();
  config->numeric = numeric_settings(worker->job.training.threads);
  config->get_model_steps = worker->job.training.get_model_steps;
  config->parts.make_work = [] { return std::make_shared<StepWork>(); };
  config->parts.read = [worker](caf::actor_system& in, const StageActor& next, const StageOwner& session) {
    return spawn_reader(in, worker->train, worker->test, worker->runner, next, session);
  };
  config->parts.train = [worker](caf::actor_system& in, std::shared_ptr<const Owners> owners,
                                 const StageActor& next, const StageOwner& session) {
    return spawn_trainer(in, worker->runner, std::move(owners), worker->job, next, session);
  };
  return spawn_session(system, std::move(config));
}

}  // namespace embers
