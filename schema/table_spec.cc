#include "schema/table_spec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

namespace embers {

namespace {

TableSpec reserved_table(const char* name, UpdateRuleSpec update_rule, Accumulation accumulation) {
  TableSpec table;
  table.name = name;
  table.dim = kDenseChunk;
  table.key_kind = KeyKind::kBytes;
  table.initializer = {"zeros", {}};
  table.update_rule = std::move(update_rule);
  table.accumulation = accumulation;
  return table;
}

}  // namespace

std::string_view name(Partition partition) {
  constexpr std::array<std::string_view, 3> names{"token", "encoding", "auto"};
  return names[static_cast<size_t>(partition)];
}

Partition partition_named(std::string_view text) {
  for (const Partition partition : {Partition::kToken, Partition::kEncoding, Partition::kAuto})
    if (text == name(partition)) return partition;
  fail(ErrorCode::kInvalid, "partition must be token, encoding or auto, not '{}'", text);
}

TableSpec dense_table(UpdateRuleSpec update_rule) {
  return reserved_table(kDenseTable, std::move(update_rule), Accumulation::kSum);
}

TableSpec buffer_table() { return reserved_table(kBufferTable, {"assign", {}}, Accumulation::kLast); }

int64_t DenseParam::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

bool ModelSpec::has_embeddings() const {
  return std::any_of(tables.begin(), tables.end(), [](const TableSpec& t) { return !is_reserved(t.name); });
}

TableId ModelSpec::table_id(const std::string& name) const {
  for (TableId i = 0; i < tables.size(); ++i)
    if (tables[i].name == name) return i;
  fail(ErrorCode::kUnknownTable, "the model has no table '{}'", name);
}

std::vector<std::string> signature(const ModelSpec& model) {
  std::vector<std::string> lines;
  for (const TableSpec& t : model.tables)
    lines.push_back(fmt::format("table '{}': dim {}, keys {}", t.name, t.dim, name(t.key_kind)));
  for (const DenseParam& p : model.dense)
    lines.push_back(fmt::format("{} '{}': shape [{}]", p.buffer ? "buffer" : "parameter", p.name,
                                fmt::join(p.shape, ", ")));
  return lines;
}

std::string signature_difference(const std::vector<std::string>& mine,
                                 const std::vector<std::string>& theirs) {
  for (size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
    if (i < mine.size() && i < theirs.size() && mine[i] == theirs[i]) continue;
    return fmt::format("{} at the master, {} at the worker", i < mine.size() ? mine[i] : "nothing more",
                       i < theirs.size() ? theirs[i] : "nothing more");
  }
  return "";
}

std::vector<DenseChunk> dense_chunks(const ModelSpec& model, bool buffer) {
  std::vector<DenseChunk> chunks;
  for (size_t p = 0; p < model.dense.size(); ++p) {
    const DenseParam& param = model.dense[p];
    if (param.buffer != buffer) continue;
    const int64_t numel = param.numel();
    for (int64_t begin = 0, k = 0; begin < numel; begin += kDenseChunk, ++k)
      chunks.push_back(
          {p, begin, std::min<int64_t>(kDenseChunk, numel - begin), fmt::format("{}#{}", param.name, k)});
  }
  return chunks;
}

}  // namespace embers
