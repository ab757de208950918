#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/ids.h"
#include "schema/table_spec.h"
#include "storage/external/created_keys.h"
#include "storage/external/external_options.h"
#include "storage/external/stored_name.h"
#include "storage/journal/write_back_journal.h"

namespace embers::storage {

// A table as its store knows it; its rows and slots are at the servers.
struct ExternalTable {
  ExternalTable(const TableSpec& spec, std::span<const float> slots, std::string_view job, PageFiller* filler)
      : name(spec.name),
        dim(spec.dim),
        slot_init(slots.begin(), slots.end()),
        kind(spec.key_kind),
        names(job, spec),
        created(spec.key_kind, filler) {}

  bool has_slots() const { return !slot_init.empty(); }
  size_t stride() const { return dim + slot_init.size(); }

  const std::string name;
  const size_t dim;
  const std::vector<float> slot_init;
  const KeyKind kind;
  StoredNames names;     // scratch: of the current keys
  CreatedKeys created;   // all that are known to have a row
  uint64_t version = 0;  // updates and restores so far
};

// The tables of a store, and which keys they hold. A key that was created elsewhere is *adopted* when its row
// is first found; with a journal, that is written down. *Thread safety*: none.
class ExternalTables {
 public:
  // `journal` may be null; it and `filler`, which makes pages of the keys' indexes, must outlive this.
  ExternalTables(const ExternalOptions& options, WriteBackJournal* journal, PageFiller* filler)
      : options_(options), journal_(journal), filler_(filler) {}

  // kInvalid for a name that is already taken.
  TableId add(const TableSpec& spec, std::span<const float> slot_init);
  ExternalTable& at(TableId id) { return tables_[index(id)]; }
  const ExternalTable& at(TableId id) const { return tables_[index(id)]; }
  auto begin() { return tables_.begin(); }
  auto end() { return tables_.end(); }
  auto begin() const { return tables_.begin(); }
  auto end() const { return tables_.end(); }
  uint64_t rows() const;  // of all tables

  // The row of the i-th of `keys` was found, written by `writer`: the store knows what this owner wrote,
  // unless its journal missed the last of those writes. Adoptions of a table are written down by
  // note_adopted().
  void adopt(TableId id, KeysView keys, size_t i, uint32_t writer);
  void note_adopted(TableId id);
  // Keys whose rows were restored.
  void adopt_all(TableId id, KeysView keys);
  // Takes over the keys and the version that the journal has for a table.
  void take_up(TableId id);

 private:
  size_t index(TableId id) const;

  const ExternalOptions& options_;
  WriteBackJournal* const journal_;
  PageFiller* const filler_;
  std::deque<ExternalTable> tables_;
  Keys adopted_;  // not yet written down
};

}  // namespace embers::storage
