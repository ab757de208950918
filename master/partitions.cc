#include "master/partitions.h"

#include "base/cpus.h"
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

PartitionChoice settle_partition(const TableSpec& table, uint32_t owners, uint64_t batch_size, size_t cores) {
  if (const std::string why = why_whole_rows(table); !why.empty()) return {Partition::kToken, why};
  const StepCosts costs = step_costs(owners, cores == 0 ? allowed_cpus().size() : cores);
  return choose_partition(table, owners, batch_size, costs);
}

std::vector<std::string> settle_partitions(ModelSpec& model, uint32_t owners, uint64_t batch_size,
                                           size_t cores) {
  std::vector<std::string> chosen;
  for (TableSpec& table : model.tables) {
    if (is_reserved(table.name)) table.partition = Partition::kToken;
    if (table.partition == Partition::kAuto) {
      const PartitionChoice choice = settle_partition(table, owners, batch_size, cores);
      table.partition = choice.partition;
      chosen.push_back(
          fmt::format("table '{}': {}, because {}", table.name, name(choice.partition), choice.why));
    }
    if (owners == 1) table.partition = Partition::kToken;
    if (table.partition == Partition::kToken) continue;
    if (const std::string why = why_whole_rows(table); !why.empty())
      fail(ErrorCode::kInvalid,
           "table '{}' cannot have partition = \"encoding\", by which each shard has some columns of every "
           "row: "
           "{}; use partition = \"token\"",
           table.name, why);
  }
  return chosen;
}

}  // namespace embers
