#include "apps/plan/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/plan/spec_text.h"
#include "apps/process/shown_text.h"
#include "base/quantities.h"

namespace embers::plan {
namespace {

using Row = std::vector<std::string>;

std::string milliseconds(const std::optional<Cost>& cost) {
  return cost ? fmt::format("{:.3f} ms", cost->seconds * 1e3) : "-";
}
std::string bytes(const std::optional<Cost>& cost) { return cost ? short_bytes(cost->bytes) : "-"; }

std::string short_keys(double keys) {
  return keys < 100 && keys != std::floor(keys) ? fmt::format("{:.1f}", keys) : short_count(keys);
}

std::string verdict(const TablePlan& table) {
  if (!table.token) return "token (the minibatches have no keys of it)";
  if (!table.token_only.empty()) return "token only: " + table.token_only;
  const double ratio = table.ratio;
  const char* const difference = ratio >= 1 ? "faster" : "slower";
  return fmt::format("{} (encoding is {:.2f} x {})", name(table.recommended), ratio >= 1 ? ratio : 1 / ratio,
                     difference);
}

std::string lines_of(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns_of(row[c]));
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c + 1 < row.size(); ++c)
      line += pad_to(row[c], widths[c], c == 1 ? Align::kLeft : Align::kRight) + "  ";
    text += line + cut_to(row.back(), widths.back()) + "\n";
  }
  return text;
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::vector<Row> rows{
      {"shards", "table", "rows", "dim", "keys", "token", "", "encoding", "", "recommended"}};
  for (const ShardsPlan& s : plan.shards) {
    for (const TablePlan& t : s.tables)
      rows.push_back({std::to_string(s.shards), t.name,
                      t.rows > 0 ? short_count(static_cast<double>(t.rows)) : "any", std::to_string(t.dim),
                      short_keys(t.keys), bytes(t.token), milliseconds(t.token), bytes(t.encoding),
                      milliseconds(t.encoding), verdict(t)});
    rows.push_back({std::to_string(s.shards), "(all of them)", "", "", "", bytes(s.token),
                    milliseconds(s.token), bytes(s.encoding), milliseconds(s.encoding),
                    fmt::format("as recommended: {}", milliseconds(s.recommended))});
  }
  std::string text = lines_of(rows);
  const ShardsPlan& best = plan.recommended();
  text += fmt::format("\nRecommended here, for one worker that computes nothing:\n\n[storage]\nshards = {}\n",
                      best.shards);
  std::string partitions;
  for (const TablePlan& table : best.tables)
    if (table.recommended == Partition::kEncoding)
      partitions += fmt::format("{} = {{ partition = \"encoding\" }}\n", toml(table.name));
  if (!partitions.empty()) text += "[storage.tables]\n" + partitions;
  return text;
}

}  // namespace embers::plan
