#pragma once

#include "client/pipeline/work.h"
#include "data/dataset.h"
#include "model/step.h"

namespace embers {

// A session's part "read" (and "dedupe"): decodes the leased minibatch and finds its unique keys. Detached:
// it waits for files. Works are StepWorks. `test` may be null for a worker that never evaluates.
StageActor spawn_reader(caf::actor_system& system, std::shared_ptr<const data::Dataset> train,
                        std::shared_ptr<const data::Dataset> test, std::shared_ptr<const ModelRunner> runner,
                        StageActor next, StageOwner session);

}  // namespace embers
