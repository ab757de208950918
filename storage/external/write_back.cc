#include "storage/external/write_back.h"

#include <utility>

#include "base/errors.h"
#include "storage/rows/store_checks.h"

namespace embers::storage {

void WriteBack::stage(TableId id, KeysView keys, std::vector<float>& values) {
  for (size_t i = 0; i < staged_; ++i)
    if (parts_[i].table == id)
      fail(ErrorCode::kInternal, "table '{}' is updated twice in one apply", tables_.at(id).name);
  if (parts_.size() == staged_) {
    parts_.emplace_back();
    values_.emplace_back();
  }
  values_[staged_].swap(values);
  parts_[staged_] = {id, tables_.at(id).version + 1, keys, values_[staged_]};
  ++staged_;
}

void WriteBack::run(const Note& note) {
  const std::span<const WriteBackJournal::Part> parts(parts_.data(), std::exchange(staged_, 0));
  if (journal_ != nullptr) journal_->begin(parts, note);
  for (const WriteBackJournal::Part& part : parts) {
    ExternalTable& table = tables_.at(part.table);
    table.version = part.version;
    write(table, part.keys, part.floats);
  }
  if (!parts.empty()) loss_.barrier();
  if (journal_ != nullptr) journal_->done();
}

void WriteBack::write(const ExternalTable& table, KeysView keys, std::span<const float> values) {
  steps_.write_rows_back(table, keys, values);
  steps_.write_slots_back(table, keys, values);
}

void WriteBack::finish_up_to(TableId id) {
  if (id == 0) pending_ = journal_->take_pending();
  for (const auto& part : pending_)
    if (part.table > id) return;
  if (pending_.empty()) return;
  for (const auto& part : std::exchange(pending_, {})) {
    ExternalTable& table = tables_.at(part.table);
    check_kind(table.name, table.kind, part.keys);
    check_size(table.name, "rows with slots of the journal", part.floats.size(), part.keys.size(),
               table.stride());
    table.names.assign(part.keys, table.has_slots());
    write(table, part.keys, part.floats);
  }
  loss_.barrier();
  journal_->done();
}

}  // namespace embers::storage
