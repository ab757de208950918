#pragma once

#include "worker/work.h"

namespace embers {

// Stage "train": forward and backward, or forward only. Detached: it computes on a thread of its own, the
// only one that runs the model's passes. Keys that were not deduped ahead are pulled from here.
StageActor spawn_trainer(caf::actor_system& system, std::shared_ptr<ModelRunner> runner,
                         std::shared_ptr<const Owners> owners, uint32_t threads, StageActor next,
                         StageOwner worker);

}  // namespace embers
