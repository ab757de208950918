#pragma once

#include <span>
#include <vector>

#include "storage/external/external_tables.h"
#include "storage/external/loss_watch.h"
#include "storage/external/update_steps.h"
#include "storage/journal/write_back_journal.h"

namespace embers::storage {

// Writes back what an apply changed: steps 4 and 5 of all its tables with one barrier, all of them in the
// journal before the first value is written. The owner's next process therefore finishes one that was cut
// off. *Thread safety*: none.
class WriteBack {
 public:
  // All must outlive it; `journal` may be null.
  WriteBack(ExternalTables& tables, UpdateSteps& steps, LossWatch& loss, WriteBackJournal* journal)
      : tables_(tables), steps_(steps), loss_(loss), journal_(journal) {}

  // `values`, which are taken, become the table's next version. Its names are those of the keys, which stay
  // valid until run(). A table comes once.
  void stage(TableId id, KeysView keys, std::vector<float>& values);
  void discard() { staged_ = 0; }
  // All that is staged, acknowledged by the servers.
  void run(const Note& note);

  // After a table was added: with the last of the tables whose write-back the journal found cut off, finishes
  // that.
  void finish_up_to(TableId id);

 private:
  void write(const ExternalTable& table, KeysView keys, std::span<const float> values);

  ExternalTables& tables_;
  UpdateSteps& steps_;
  LossWatch& loss_;
  WriteBackJournal* const journal_;

  size_t staged_ = 0;  // of the next two, which keep their room
  std::vector<WriteBackJournal::Part> parts_;
  std::vector<std::vector<float>> values_;
  std::vector<WriteBackJournal::OwnedPart> pending_;  // of the owner's last process
};

}  // namespace embers::storage
