#include "storage/external/update_steps.h"

#include <algorithm>

#include "storage/external/stored_value.h"

namespace embers::storage {

// --- 1 -------------------------------------------------------------------------------------------

void UpdateSteps::look_up_rows_and_slots(TableId id, KeysView keys) {
  ExternalTable& table = tables_.at(id);
  const size_t n = keys.size();
  values_.resize(n * table.stride());
  for (auto* flags : {&has_row_, &has_slots_}) flags->assign(n, 0);
  for (auto* versions : {&row_version_, &slots_version_}) versions->assign(n, 0);
  table.names.assign(keys, table.has_slots());
  reads_.fetch(table.names.names(), [&](size_t i, std::string_view name, std::string_view value) {
    const bool slots = i >= n;
    if (slots) i -= n;
    const std::span<float> all(&values_[i * table.stride()], table.stride());
    ValueTag tag;
    if (!read_value(value, name, options_.run, table.names.rest(keys, i), tag,
                    slots ? all.subspan(table.dim) : all.first(table.dim)))
      return;
    (slots ? has_slots_ : has_row_)[i] = 1;
    (slots ? slots_version_ : row_version_)[i] = tag.version;
    if (!slots) tables_.adopt(id, keys, i, tag.writer);
  });
  tables_.note_adopted(id);
  for (size_t i = 0; i < n; ++i)
    if (!has_row_[i]) loss_.fail_missing(table, keys, i);
}

// --- 2 -------------------------------------------------------------------------------------------

void UpdateSteps::initialize_unknown_slots(TableId id, KeysView keys) {
  ExternalTable& table = tables_.at(id);
  if (!table.has_slots()) return;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (has_slots_[i] && slots_version_[i] == row_version_[i]) continue;
    // Slots are written by the first update of their row, and by every later one.
    if (has_slots_[i] || row_version_[i] != 0) loss_.fail_lost(table, keys, i, LossWatch::Part::kSlots);
    std::ranges::copy(table.slot_init, &values_[i * table.stride() + table.dim]);
  }
}

// --- 3 -------------------------------------------------------------------------------------------

void UpdateSteps::apply_update_rule(TableId id, KeysView keys, std::span<const float> grads,
                                    const RowsKernel& kernel) {
  const ExternalTable& table = tables_.at(id);
  const std::span<float> values(values_);
  batch_.assign(keys);
  rows_.clear();
  for (size_t i = 0; i < keys.size(); ++i) rows_.push_back(&values[batch_.first(i) * table.stride()]);
  kernel({rows_, table.dim, table.stride() - table.dim, grads});
  // Every place of a key that comes twice gets the key's result, so that it does not matter which one is
  // written.
  for (size_t i = 0; i < keys.size(); ++i)
    if (batch_.first(i) != i)
      std::copy_n(&values[batch_.first(i) * table.stride()], table.stride(), &values[i * table.stride()]);
}

// --- 4 and 5 -------------------------------------------------------------------------------------

void UpdateSteps::write_rows_back(const ExternalTable& table, KeysView keys, std::span<const float> values) {
  for (size_t i = 0; i < keys.size(); ++i)
    set(table, keys, i, table.names.names()[i], values.subspan(i * table.stride(), table.dim));
}

void UpdateSteps::write_slots_back(const ExternalTable& table, KeysView keys, std::span<const float> values) {
  if (!table.has_slots()) return;
  for (size_t i = 0; i < keys.size(); ++i)
    set(table, keys, i, table.names.names()[keys.size() + i],
        values.subspan(i * table.stride() + table.dim, table.slot_init.size()));
}

void UpdateSteps::set(const ExternalTable& table, KeysView keys, size_t i, std::string_view name,
                      std::span<const float> floats) {
  reads_.server(name).set(name, encode(table, keys, i, name, table.version, floats));
}

std::string_view UpdateSteps::encode(const ExternalTable& table, KeysView keys, size_t i,
                                     std::string_view name, uint64_t version, std::span<const float> floats) {
  value_.clear();
  append_value(value_, name, {options_.run, version, options_.owner}, floats, table.names.rest(keys, i));
  return value_;
}

}  // namespace embers::storage
