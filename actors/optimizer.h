#pragma once

#include "actors/message_types.h"
#include "actors/shard.h"

namespace embers {

// Spawns an owner's optimizer actor: *when and with what* rows change. It stages pushes, counts minibatches
// exactly once, puts them in order and sends its shard one apply per version (sync) or per push (async).
//
//   push ──► fenced? ──► known (epoch, minibatch)? ──► async ─────────────► apply ──► "applied"
//                                                 └──► sync: stage ──► "staged" ··· commit ──► accumulate ──►
//                                                 apply
OptimizerActor spawn_optimizer(caf::actor_system& system, const OwnerConfig& config, LocalShardActor shard);

}  // namespace embers
