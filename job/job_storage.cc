#include <fnmatch.h>

#include "base/errors.h"
#include "job/job_parts.h"

namespace embers::job {
namespace {

// The entry that decides a table's dim: the last that matches and has one; nullptr if none does.
const TableOverride* dim_entry(const std::vector<TableOverride>& entries, const std::string& table) {
  const TableOverride* last = nullptr;
  for (const TableOverride& entry : entries) {
    if (entry.dim && entry.matches(table)) last = &entry;
  }
  return last;
}

TableOverride read_override(Section section, std::string match) {
  TableOverride entry;
  entry.match = std::move(match);
  if (section.find("dim") != nullptr) section.read_count("dim", entry.dim.emplace(0), 1);
  entry.initializer = read_named<InitializerSpec>(section, "initializer");
  entry.optimizer = read_named<UpdateRuleSpec>(section, "optimizer");
  entry.constraint = read_named<ConstraintSpec>(section, "constraint");
  if (section.find("learning_rate") != nullptr) section.read("learning_rate", entry.learning_rate.emplace(0));
  if (section.find("dtype") != nullptr) read_number_type(section, "dtype", entry.dtype.emplace());
  if (section.find("rounding") != nullptr) read_rounding(section, entry.rounding.emplace());
  section.done();
  return entry;
}

// Halves are kept in memory only.
void check_dtype(const Job& job, NumberType type, const std::vector<std::string>& key) {
  if (type == NumberType::kFloat32 || job.storage.backend == "memory") return;
  fail(ErrorCode::kInvalid,
       "{}: rows are kept as {} with backend 'memory' only, {} holds float32 (storage.wire_dtype is for all)",
       job.place(key), name(type), job.storage.backend);
}

}  // namespace

void read_number_type(Section& section, std::string_view key, NumberType& type) {
  section.read_choice(key, type,
                      {{"float32", NumberType::kFloat32},
                       {"float16", NumberType::kFloat16},
                       {"bfloat16", NumberType::kBfloat16}});
}

void read_rounding(Section& section, Rounding& rounding) {
  section.read_choice("rounding", rounding,
                      {{"nearest", Rounding::kNearest}, {"stochastic", Rounding::kStochastic}});
}

void check_dtypes(const Job& job) {
  check_dtype(job, job.storage.dtype, {"storage", "dtype"});
  for (const TableOverride& entry : job.storage.tables)
    if (entry.dtype) check_dtype(job, *entry.dtype, {"storage", "tables", entry.match, "dtype"});
}

bool TableOverride::matches(const std::string& table) const {
  return fnmatch(match.c_str(), table.c_str(), 0) == 0;
}

std::vector<TableOverride> read_table_overrides(const Section& storage, const toml::table& table) {
  std::vector<TableOverride> entries;
  for (const auto& [key, node] : in_file_order(table)) {
    const std::string match(key->str());
    const std::string title = fmt::format("[storage.tables.\"{}\"]", match);
    entries.push_back(read_override(storage.below(as_section(*node, title), title, "tables"), match));
  }
  return entries;
}

uint32_t Job::dim_for(const std::string& table, uint32_t otherwise) const {
  const TableOverride* const entry = dim_entry(storage.tables, table);
  return entry == nullptr ? otherwise : *entry->dim;
}

void Job::apply_overrides(TableSpec& table) const {
  table.update_rule = optimizer;
  table.number_type = storage.dtype;
  table.rounding = storage.rounding;
  for (const TableOverride& entry : storage.tables) {
    if (!entry.matches(table.name)) continue;
    if (entry.initializer) table.initializer = *entry.initializer;
    if (entry.optimizer) table.update_rule = *entry.optimizer;
    if (entry.constraint) table.constraint = *entry.constraint;
    if (entry.dtype) table.number_type = *entry.dtype;
    if (entry.rounding) table.rounding = *entry.rounding;
    if (!entry.learning_rate) continue;
    table.update_rule.params["learning_rate"] = *entry.learning_rate;
    table.update_rule.schedule.params.erase("initial_learning_rate");
  }
  const TableOverride* const entry = dim_entry(storage.tables, table.name);
  if (entry != nullptr && *entry->dim != table.dim) {
    fail(ErrorCode::kInvalid,
         "{}: [storage.tables.\"{}\"] gives table '{}' dim {}, but the model made it with dim {}",
         place({"storage", "tables", entry->match, "dim"}), entry->match, table.name, *entry->dim, table.dim);
  }
}

}  // namespace embers::job
