#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/external/external_options.h"
#include "storage/external/key_value_server.h"
#include "storage/journal/write_back_journal.h"
#include "storage/rows/store.h"

namespace embers::storage {

// A Store on key-value servers: *storage does not optimize*. update() is ElasticDL's OptimizerWrapper: look
// up rows and slots, initialize unknown slots, apply, write rows back, write slots back.
//
// In addition to what Store says: (1) the keys it created are remembered here, since servers cannot list
// them; a key that was created elsewhere joins them when it is first gathered. (2) If a row that was created
// is gone, or a server cannot be reached, was restarted or flushed, refused a write or evicted rows, that is
// kLost naming server, reason and how many rows. Nothing is ever created in place of a lost row, and what
// failed was not acknowledged. (3) An update has reached all servers when it returns, those of apply() when
// apply() returns; with a journal, one that was cut off is finished by the next store of the same run and
// owner, when its tables are added.
class ExternalStore : public Store {
 public:
  // Runs `updates`, which calls update() at most once per table and no other member of the store, and writes
  // back what they changed when all have succeeded: all tables or, if one throws, none. The keys given to
  // update() stay valid until then. With a journal, `note` is kept with the updates: it is among take_notes()
  // of the next process if and only if the updates took effect.
  virtual void apply(const Note& note, const std::function<void()>& updates) = 0;
  // Keeps a note without updates.
  virtual void keep(const Note& note) = 0;

  // Whether it continues where the owner's last process was cut off, and the notes of that process, in order;
  // each may come again, right after itself. May be called once.
  virtual bool recovered() const = 0;
  virtual std::vector<std::string> take_notes() = 0;

  // Updates and restores that the table has seen, those finished after a restart included.
  virtual uint64_t version(TableId table) const = 0;

  // Tells readers (external_reader.h) that all tables are at this version of their owner, all of which was
  // written before. Does not wait for the servers. If this message is lost or late, readers take rows for
  // older than they are.
  virtual void publish(uint64_t version) = 0;
};

// `filler`: as in make_memory_store, for the index of the keys.
std::unique_ptr<ExternalStore> make_external_store(KeyValueServers servers, const ExternalOptions& options,
                                                   std::shared_ptr<PageFiller> filler = nullptr);

}  // namespace embers::storage
