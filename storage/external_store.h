#pragma once

#include <memory>
#include <string>

#include "storage/key_value_server.h"
#include "storage/store.h"

namespace embers::storage {

// Whose rows an external store holds.
struct ExternalOptions {
  std::string job;      // name: jobs that share servers differ in it
  uint64_t run = 0;     // number of the job's run: rows of other runs count as absent and are written over
  uint32_t shard = 0;   // the one writer of its keys
  std::string journal;  // directory for a WriteBackJournal, "" for none
};

// A Store on key-value servers: *storage does not optimize*. update() is ElasticDL's OptimizerWrapper: look
// up rows and slots, initialize unknown slots, apply, write rows back, write slots back.
//
// Beside what Store says: (1) the keys it created are remembered here, since servers cannot list them; a key
// that was created elsewhere joins them when it is first gathered. (2) A row that was created and is gone, a
// server that cannot be reached, that was restarted or flushed, that refused a write or that evicted rows, is
// kLost naming server, reason and how many rows: nothing is ever created in place of a lost row, and what
// failed was not acknowledged. (3) An update has reached all servers when it returns; with a journal, one
// that was cut off is finished by the next store of the same run and shard, in add_table.
class ExternalStore : public Store {
 public:
  // Updates and restores that the table has seen, those finished after a restart included: tells a caller
  // that was cut off whether its last one took effect.
  virtual uint64_t version(TableId table) const = 0;

  // Tells readers (external_reader.h) that all tables are at this version of their owner, all of which was
  // written before. Not waited for; lost or late, it makes readers take rows for older than they are.
  virtual void publish(uint64_t version) = 0;
};

std::unique_ptr<ExternalStore> make_external_store(KeyValueServers servers, const ExternalOptions& options);

}  // namespace embers::storage
