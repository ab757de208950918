#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/message_types.h"
#include "base/files/disk.h"
#include "base/floats/float_buffer.h"
#include "master/state/events/cursor.h"
#include "schema/partition.h"
#include "schema/table_spec.h"

namespace embers {

// Rows between owners and files. These functions run in an actor of their own and wait for each answer; a
// training job calls them only while nothing is leased, so that what they read is one cut.
struct SnapshotContext {
  std::vector<OwnerHandles> owners;
  OwnerMap map;
  ModelSpec model;
  Disk* disk = &host_disk();  // of checkpoints
};

// Writes all rows with slots, and the manifest, to `directory` (see storage/checkpoint/checkpoint.h).
void save_checkpoint(caf::blocking_actor* self, const SnapshotContext& context, const std::string& directory,
                     const std::string& job, const Cursor& cursor);

// Brings the rows of a checkpoint to the owners that hold their buckets now; kMismatch naming what differs
// when it was made by another model. Without `slots` only the rows themselves are brought, to owners whose
// tables have no slots.
Cursor load_checkpoint(caf::blocking_actor* self, const SnapshotContext& context,
                       const std::string& directory, bool slots);

// The first values of dense parameters and buffers, set if absent: [chunks x kDenseChunk] each, in order of
// dense_chunks.
void init_dense(caf::blocking_actor* self, const SnapshotContext& context, const FloatBuffer& dense,
                const FloatBuffer& buffers);

// kMismatch saying what this job must have in common with the one that stopped in the middle of an epoch.
void check_same_epoch(const Cursor& saved, const Cursor& now, const std::string& directory);

// Tells every owner where the job stands.
void resume_owners(caf::blocking_actor* self, const SnapshotContext& context, const Cursor& cursor);

// Writes every row to a text file (see storage/checkpoint/checkpoint.h, RowDump).
void dump_rows(caf::blocking_actor* self, const SnapshotContext& context, const std::string& file);

}  // namespace embers
