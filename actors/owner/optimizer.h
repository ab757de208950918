#pragma once

#include "actors/message_types.h"
#include "actors/owner/shard.h"

namespace embers {

// Spawns an owner's optimizer actor: *when and with what* rows change. It stages pushes, counts minibatches
// exactly once, puts them in order and sends its shard one apply per version (sync) or per push (async).
//
//   push ──► fenced? ──► known (epoch, minibatch)? ──► async ─────────────► apply ──► "applied"
//                                                 └──► sync: stage ──► "staged" ··· commit ──► accumulate ──►
//                                                 apply
//
// With a journal a push is staged on disk before it is acknowledged, and the actor has a thread of its own.
// `left`: what the owner's last process noted of its applies; what it had staged is staged again, too.
OptimizerActor spawn_optimizer(caf::actor_system& system, const OwnerConfig& config, LocalShardActor shard,
                               const std::vector<AppliedNote>& left = {});

}  // namespace embers
