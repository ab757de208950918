#pragma once

#include "data/dataset.h"
#include "worker/work.h"

namespace embers {

// Stage "read" (and "dedupe"): decodes the leased minibatch and finds its unique keys. Detached: it waits for
// files. `test` may be null for a worker that never evaluates.
StageActor spawn_reader(caf::actor_system& system, std::shared_ptr<const data::Dataset> train,
                        std::shared_ptr<const data::Dataset> test, std::shared_ptr<const ModelRunner> runner,
                        StageActor next, StageOwner worker);

}  // namespace embers
