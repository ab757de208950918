#pragma once

#include <span>
#include <vector>

#include "storage/external/external_tables.h"
#include "storage/external/loss_watch.h"
#include "storage/external/update_steps.h"
#include "storage/journal/write_back_journal.h"

namespace embers::storage {

// Writes back what an apply changed: steps 4 and 5 of all its tables with one barrier. All of it is in the
// journal before the first value is written, so the owner's next process finishes a write-back that was cut
// off. *Thread safety*: none.
class WriteBack {
 public:
  // All must outlive it; `journal` may be null.
  WriteBack(ExternalTables& tables, UpdateSteps& steps, LossWatch& loss, WriteBackJournal* journal)
      : tables_(tables), steps_(steps), loss_(loss), journal_(journal) {}

  // `values`, which are taken over, become the table's next version. The table's names must be those of the
  // keys, which stay valid until run(). A table may be staged once.
  void stage(TableId id, KeysView keys, std::vector<float>& values);
  void discard() { staged_ = 0; }
  // Writes all that is staged; the servers have acknowledged it on return.
  void run(const Note& note);

  // To be called after a table was added. If the journal has a write-back that was cut off, and this was the
  // last of its tables, finishes it.
  void finish_up_to(TableId id);

 private:
  void write(const ExternalTable& table, KeysView keys, std::span<const float> values);

  ExternalTables& tables_;
  UpdateSteps& steps_;
  LossWatch& loss_;
  WriteBackJournal* const journal_;

  size_t staged_ = 0;  // used entries of the next two, which keep their room
  std::vector<WriteBackJournal::Part> parts_;
  std::vector<std::vector<float>> values_;
  std::vector<WriteBackJournal::OwnedPart> pending_;  // of the owner's last process
};

}  // namespace embers::storage
