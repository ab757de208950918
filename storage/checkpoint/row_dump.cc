#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include "base/files/output_file.h"
#include "storage/checkpoint/checkpoint.h"

namespace embers::storage {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

// Rows of one table as they were added.
struct DumpTable {
  Keys keys;
  std::vector<float> rows;
};

void append_float(std::string& to, float value) {
  char text[32];
  to.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

std::vector<size_t> sorted_by_key(const Keys& keys) {
  const KeysView view = keys.view();
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (view.kind == KeyKind::kInt64) {
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return view.ints[a] < view.ints[b]; });
  } else {
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return view.bytes_at(a) < view.bytes_at(b); });
  }
  return order;
}

// Sorts in memory: a table that is small enough to read as text fits into memory twice.
class Dump final : public RowDump {
 public:
  Dump(const std::string& path, const ModelSpec& model) : path_(path), model_(model), file_(path) {
    for (const TableSpec& table : model.tables) tables_.push_back({Keys(table.key_kind), {}});
    for (const bool buffer : {false, true})
      for (const DenseChunk& chunk : dense_chunks(model, buffer))
        chunk_floats_[buffer].emplace(chunk.key, static_cast<size_t>(chunk.size));
  }

  void add(TableId table, KeysView keys, std::span<const float> rows) override {
    check(table, keys, rows.size());
    DumpTable& to = tables_[table];
    for (size_t i = 0; i < keys.size(); ++i) to.keys.push_back_from(keys, i);
    to.rows.insert(to.rows.end(), rows.begin(), rows.end());
  }

  void finish() override {
    std::vector<TableId> order(tables_.size());
    std::iota(order.begin(), order.end(), TableId{0});
    std::sort(order.begin(), order.end(),
              [&](TableId a, TableId b) { return model_.tables[a].name < model_.tables[b].name; });
    for (const TableId table : order) write_table(table);
    flush();
    file_.finish();
  }

 private:
  void check(TableId table, KeysView keys, size_t floats) const {
    if (table >= tables_.size())
      fail(ErrorCode::kUnknownTable, "'{}': there is no table number {}: the model has {} tables", path_,
           table, tables_.size());
    const TableSpec& spec = model_.tables[table];
    if (keys.kind != spec.key_kind || floats != keys.size() * spec.dim)
      fail(ErrorCode::kInvalid,
           "'{}', table '{}': {} {} keys with {} floats, but the table has {} keys and dim {}", path_,
           spec.name, keys.size(), name(keys.kind), floats, name(spec.key_kind), spec.dim);
  }

  void write_table(TableId table) {
    const DumpTable& from = tables_[table];
    const TableSpec& spec = model_.tables[table];
    for (const size_t i : sorted_by_key(from.keys)) {
      text_ += to_string(Keys(std::vector<std::string>{spec.name}), 0);
      text_ += '\t';
      text_ += to_string(from.keys, i);
      const std::span row(&from.rows[i * spec.dim], floats_shown(spec, from.keys, i));
      for (const float value : row) append_float(text_ += '\t', value);
      text_ += '\n';
      if (text_.size() >= kFlushBytes) flush();
    }
  }

  // A row's floats that count: all but the padding of a dense parameter's last chunk.
  size_t floats_shown(const TableSpec& table, KeysView keys, size_t i) const {
    if (!is_reserved(table.name)) return table.dim;
    const auto& chunks = chunk_floats_[table.name == kBufferTable];
    const auto chunk = chunks.find(keys.bytes_at(i));
    if (chunk == chunks.end())
      fail(ErrorCode::kInvalid, "'{}': the model has no dense chunk '{}'", path_, to_string(keys, i));
    return chunk->second;
  }

  void flush() {
    file_.write(text_);
    text_.clear();
  }

  // Constant after construction.
  const std::string path_;
  const ModelSpec model_;
  std::map<std::string, size_t, std::less<>> chunk_floats_[2];  // by DenseChunk::key; parameters, buffers

  OutputFile file_;
  std::vector<DumpTable> tables_;
  std::string text_;  // not yet in the file
};

}  // namespace

std::unique_ptr<RowDump> RowDump::make(const std::string& file, const ModelSpec& model) {
  return std::make_unique<Dump>(file, model);
}

}  // namespace embers::storage
