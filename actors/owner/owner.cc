#include "actors/owner/owner.h"

namespace embers {

OwnerHandles spawn_owner(caf::actor_system& system, const OwnerConfig& given) {
  OwnerConfig config = given;
  for (TableSpec& table : config.tables) table = part_of(table, config.number, config.map.owners());
  std::vector<AppliedNote> left;
  const LocalShardActor shard = spawn_shard(system, config, &left);
  return {spawn_optimizer(system, config, shard, left), caf::actor_cast<ShardActor>(shard)};
}

void end_owner(const OwnerHandles& owner) {
  caf::anon_send_exit(owner.optimizer, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(owner.shard, caf::exit_reason::user_shutdown);
}

}  // namespace embers
