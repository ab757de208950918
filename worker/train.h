#pragma once

#include "client/pipeline/work.h"
#include "job/job.h"
#include "model/step.h"

namespace embers {

// A session's part "train": forward and backward, or forward only. Detached: it computes on a thread of its
// own, the only one that runs the model's passes. Keys that were not deduped ahead are pulled from here. With
// training.get_model_steps above 1 the dense parameters come from the worker's local model (see
// actors/routing/local_model.h). A minibatch that pulled them replaces that model; every minibatch changes
// it.
StageActor spawn_trainer(caf::actor_system& system, std::shared_ptr<ModelRunner> runner,
                         std::shared_ptr<const Owners> owners, const job::Job& job, StageActor next,
                         StageOwner session);

}  // namespace embers
