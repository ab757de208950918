#include "storage/external/external_tables.h"

#include "base/errors.h"
#include "storage/rows/store_checks.h"

namespace embers::storage {

TableId ExternalTables::add(const TableSpec& spec, std::span<const float> slot_init) {
  for (const ExternalTable& table : tables_)
    if (table.name == spec.name) fail(ErrorCode::kInvalid, "table '{}' is in the store already", spec.name);
  tables_.emplace_back(spec, slot_init, options_.job, filler_);
  return static_cast<TableId>(tables_.size() - 1);
}

uint64_t ExternalTables::rows() const {
  uint64_t rows = 0;
  for (const ExternalTable& table : tables_) rows += table.created.size();
  return rows;
}

void ExternalTables::adopt(TableId id, KeysView keys, size_t i, uint32_t writer) {
  const bool recovered = journal_ != nullptr && journal_->found();
  if (writer == options_.owner && !recovered) return;
  if (!at(id).created.insert(keys, i) || journal_ == nullptr) return;
  if (adopted_.kind() != keys.kind) adopted_ = Keys(keys.kind);
  adopted_.push_back_from(keys, i);
}

void ExternalTables::note_adopted(TableId id) {
  if (adopted_.empty()) return;
  journal_->created(id, adopted_);
  adopted_.clear();
}

void ExternalTables::adopt_all(TableId id, KeysView keys) {
  for (size_t i = 0; i < keys.size(); ++i) adopt(id, keys, i, ~options_.owner);
  note_adopted(id);
}

void ExternalTables::take_up(TableId id) {
  ExternalTable& table = at(id);
  for (const Keys& keys : journal_->take_created(id)) {
    check_kind(table.name, table.kind, keys);
    for (size_t i = 0; i < keys.size(); ++i) table.created.insert(keys, i);
  }
  table.version = journal_->version(id);
}

size_t ExternalTables::index(TableId id) const {
  if (id >= tables_.size())
    fail(ErrorCode::kUnknownTable, "there is no table number {}: the store holds {} tables", id,
         tables_.size());
  return id;
}

}  // namespace embers::storage
