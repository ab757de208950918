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

JobScale scale_of(const job::Job& job, uint64_t batch_size) {
  return {.owners = job.storage.shards,
          .batch_size = batch_size,
          .workers = job.training.workers,
          .network_gbits = job.storage.network_gbits};
}

PartitionChoice settle_partition(const TableSpec& table, const JobScale& scale) {
  if (const std::string why = why_whole_rows(table); !why.empty()) return {Partition::kToken, why};
  return choose_partition(table, scale.owners, scale.batch_size, step_costs(scale));
}

std::vector<std::string> settle_partitions(ModelSpec& model, const JobScale& scale) {
  std::vector<std::string> chosen;
  for (TableSpec& table : model.tables) {
    if (is_reserved(table.name)) table.partition = Partition::kToken;
    if (table.partition == Partition::kAuto) {
      const PartitionChoice choice = settle_partition(table, scale);
      table.partition = choice.partition;
      chosen.push_back(
          fmt::format("table '{}': {}, because {}", table.name, name(choice.partition), choice.why));
    }
    if (scale.owners == 1) table.partition = Partition::kToken;
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
