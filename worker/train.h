#pragma once

#include "client/pipeline/work.h"
#include "job/job.h"
#include "model/step.h"

namespace embers {

// A session's part "train": forward and backward, or forward only. Detached: it computes on a thread of its
// own, the only one that runs the model's passes. Keys that were not deduped ahead are pulled from here. Dense
// parameters that were pulled before the last steps of this worker get these steps added, and with
// training.get_model_steps above 1 they come from the worker's local model between two pulls (see
// actors/routing/local_model.h): docs/update-modes.md, "Own steps" and "Local steps".
StageActor spawn_trainer(caf::actor_system& system, std::shared_ptr<ModelRunner> runner,
                         std::shared_ptr<const Owners> owners, const job::Job& job, StageActor next,
                         StageOwner session);

}  // namespace embers
