#pragma once

#include "actors/message_types.h"
#include "actors/owner/optimizer.h"
#include "actors/owner/shard.h"

namespace embers {

// Spawns an owner: an optimizer actor and the shard it orders. Of tables with the encoding partition, which
// `config` has as the job does, they see only the owner's columns.
OwnerHandles spawn_owner(caf::actor_system& system, const OwnerConfig& config);

// Ends both actors of a local owner.
void end_owner(const OwnerHandles& owner);

}  // namespace embers
