#pragma once

#include "client/pipeline/pull.h"
#include "client/pipeline/work.h"

namespace embers {

// The one message to each owner with a minibatch's gradients, buffers included; empty for an owner that gets
// none, so that it can count.
std::vector<Message<wire::PushRequest>> push_requests(const Work& work, const Owners& owners,
                                                      const ModelSpec& model, const DenseKeys& keys);

// Stage "push": pushes, waits until every owner has acknowledged, and tells the master. Then the work is
// finished: it goes back to the session. Work that an owner refuses as stale is given back to the master.
StageActor spawn_pusher(caf::actor_system& system, std::shared_ptr<const Owners> owners, ModelSpec model,
                        MasterActor master, StageOwner session);

}  // namespace embers
