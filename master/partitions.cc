#include "master/partitions.h"

#include "base/errors.h"
#include "storage/rows/constraint.h"
#include "storage/update_rules/update_rule.h"

namespace embers {

std::string why_whole_rows(const TableSpec& table) {
  const auto rule = storage::UpdateRule::make(table.update_rule);
  if (rule->needs_whole_rows()) return fmt::format("optimizer '{}' needs whole rows", table.update_rule.name);
  if (rule->clipping().norm > 0) return "clipnorm needs the norms of whole rows";
  if (rule->clipping().global_norm > 0) return "global_clipnorm needs the norms of whole rows";
  const auto constraint = storage::Constraint::make(table.constraint);
  if (constraint && constraint->needs_whole_rows())
    return fmt::format("constraint '{}' needs whole rows", table.constraint.name);
  return "";
}

Partition settle_partition(const TableSpec&, uint32_t) { return Partition::kToken; }

void settle_partitions(ModelSpec& model, uint32_t owners) {
  for (TableSpec& table : model.tables) {
    if (owners == 1 || is_reserved(table.name)) table.partition = Partition::kToken;
    if (table.partition == Partition::kToken) continue;
    const std::string why = why_whole_rows(table);
    if (table.partition == Partition::kAuto)
      table.partition = why.empty() ? settle_partition(table, owners) : Partition::kToken;
    else if (!why.empty())
      fail(ErrorCode::kInvalid,
           "table '{}' cannot have partition = \"encoding\", by which each shard has some columns of every "
           "row: "
           "{}; use partition = \"token\"",
           table.name, why);
  }
}

}  // namespace embers
