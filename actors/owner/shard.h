#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/message_types.h"
#include "actors/owner/activity.h"
#include "actors/owner/applied_note.h"
#include "schema/messages/codec.h"
#include "schema/partition.h"
#include "schema/table_spec.h"
#include "storage/external/external_store.h"
#include "storage/update_rules/update_rule.h"

namespace embers {

// What an owner is, constant after its start.
struct OwnerConfig {
  uint64_t job = 0;     // number of the run: messages of another one are refused
  uint32_t number = 0;  // its own in the owner map
  uint64_t seed = 1;
  bool sync = false;
  bool staleness_modulation =
      false;                        // async: a push's learning rates are divided by its staleness, if above 1
  bool skip_bad_gradients = false;  // infinite or NaN ones are left out; else they are errors
  std::vector<TableSpec> tables;    // by TableId; the job's for spawn_owner(), its own parts for the shard
  OwnerMap map;
  std::string backend = "memory";    // memory | memcached | redis
  std::vector<std::string> servers;  // of memcached or Redis
  storage::ServerTimeouts timeouts;  // of the servers
  storage::ServerLogin login;        // what the servers ask for
  // Reaches the servers, unless it is null: the seam by which a test gives an owner servers in memory.
  std::function<storage::KeyValueServers()> connect_servers;
  storage::ExternalOptions external;  // whose rows they hold
  bool takes_over = false;            // from a lost process of the owner, through its journal
  std::optional<int> cpu;             // that the shard actor is bound to, in a thread of its own
  std::shared_ptr<OwnerActivity> activity = std::make_shared<OwnerActivity>();  // kept up to date
  std::shared_ptr<storage::PageFiller> page_filler;  // shared in the process; null: one of its own

  bool has_journal() const { return backend != "memory" && !external.journal.empty(); }
  // Called in an actor's thread when the master ends the job.
  std::function<void(bool ok, const std::string& message)> on_end;
};

// One apply, from the optimizer actor to its shard, within the process: gradients of each table, one per key.
struct ApplyBatch {
  uint64_t version = 0;    // the version that it makes
  uint64_t step = 0;       // of the model; the learning rate is a function of it
  double rate_factor = 1;  // every learning rate is multiplied by it
  std::vector<TableSlices> tables;
  // Whose push it is, and which of the sender's own steps it has taken; 0: nobody's, or none.
  uint64_t sender = 0, sender_step = 0;
  AppliedNote note;                       // for the journal
  std::shared_ptr<const void> keepalive;  // owner of what `tables` view
};
using ApplyPtr = std::shared_ptr<const ApplyBatch>;
using NotePtr = std::shared_ptr<const AppliedNote>;

struct StoreStats {
  uint64_t rows = 0;
  uint64_t resident_bytes = 0;
  uint64_t left_out = 0;  // rows that applies left as they were: they would have become infinite or NaN
};

using apply_atom = caf::atom_constant<caf::atom("apply")>;
using note_atom = caf::atom_constant<caf::atom("note")>;
using map_atom = caf::atom_constant<caf::atom("map")>;
using stats_atom = caf::atom_constant<caf::atom("stats")>;
using room_atom = caf::atom_constant<caf::atom("room")>;

// The shard as its optimizer sees it.
using LocalShardActor =
    ShardActor::extend<caf::replies_to<apply_atom, ApplyPtr>::with<uint64_t>,
                       caf::replies_to<note_atom, NotePtr>::with<uint64_t>,  // what is known without an apply
                       caf::replies_to<map_atom, uint32_t>::with<uint32_t>,  // version of the owner map
                       caf::replies_to<stats_atom>::with<StoreStats>,
                       caf::reacts_to<room_atom>>;  // a peer that was slow to read has read

// Spawns the single owner and only writer of a shard's rows, on top of a Store. Throws Error for a spec that
// storage refuses (unknown initializer, optimizer or backend), or a server that cannot be reached. A shard
// that talks to servers, or is bound to a CPU, has a thread of its own. With a journal, finishes what the
// owner's last process began; `left` gets the notes of what that applied, in order. kInvalid when
// config.takes_over and the journal is not there.
LocalShardActor spawn_shard(caf::actor_system& system, const OwnerConfig& config,
                            std::vector<AppliedNote>* left = nullptr);

}  // namespace embers

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::ApplyPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::NotePtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::StoreStats)
