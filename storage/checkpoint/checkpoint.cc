#include "storage/checkpoint/checkpoint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/files/output_file.h"
#include "storage/checkpoint/checkpoint_paths.h"
#include "storage/checkpoint/column_join.h"
#include "storage/checkpoint/model_json.h"
#include "storage/checkpoint/rows_file.h"
#include "storage/update_rules/update_rule.h"

namespace embers::storage {
namespace {

using nlohmann::json;

// The manifest, besides the job's own entries:
//   format    1, or 2 if the columns of some table were spread over owners
//   tables    [{name, dim, key_kind, input_dim, initializer, optimizer, constraint, slots, accumulation}],
//             table 0 first
//   dense     [{name, shape, buffer}]
//   files     [{name (with its rows-N/), rows, bytes, checksum}], that of table 0 first; of a table whose
//             columns were spread, {columns [{begin, end, name, rows, bytes, checksum}]}, the first column
//             first
//   checksum  XXH3 of the manifest without this entry, in nlohmann's shortest form (keys sorted, no blanks)
constexpr int kFormat = 1, kFormatOfColumns = 2;
constexpr uint64_t kJoinBytes = uint64_t{256} << 20;  // of rows that are joined at once

// Which rows a file has: those of a table, or some columns of them.
struct RowsOf {
  TableId table = 0;
  ColumnRange columns;  // empty: all
  friend auto operator<=>(const RowsOf&, const RowsOf&) = default;
};

std::string rows_file(const RowsOf& of) {
  return of.columns.empty() ? fmt::format("{:04}.rows", of.table)
                            : fmt::format("{:04}-{}.rows", of.table, of.columns.begin);
}

std::string hex(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

// For a string that hex() never makes: 0, which is then the wrong checksum.
uint64_t from_hex(const std::string& text) {
  uint64_t checksum = 0;
  std::from_chars(text.data(), text.data() + text.size(), checksum, 16);
  return checksum;
}

std::string checksum_of(json manifest) {
  manifest.erase("checksum");
  const std::string text = manifest.dump();
  return hex(XXH3_64bits(text.data(), text.size()));
}

RowShape shape_of(const TableSpec& table) {
  const size_t slots = slot_floats(*UpdateRule::make(table.update_rule), table.dim);
  return {table.key_kind, static_cast<uint32_t>(table.dim + slots)};
}

RowShape shape_of(TableSpec table, ColumnRange columns) {
  table.dim = columns.size();
  return shape_of(table);
}

std::string to_string(RowShape shape) {
  return fmt::format("{} keys, {} floats a row", name(shape.kind), shape.floats);
}

class Writer final : public CheckpointWriter {
 public:
  Writer(const std::string& directory, Disk& disk) : disk_(disk), paths_(checkpoint_paths(directory)) {
    prepare_checkpoint(disk_, paths_);
  }

  ~Writer() override {
    try {
      disk_.remove_all(paths_.fresh_rows);
      disk_.remove(fresh_path(paths_.manifest));
      disk_.remove(paths_.directory);  // if it is empty: this writer made it for nothing
    } catch (const std::exception&) {  // not empty; or the next writer removes what is left
    }
  }

  void add(TableId table, KeysView keys, std::span<const float> values) override {
    add_rows({table, {}}, keys, values);
  }

  void add_columns(TableId table, ColumnRange columns, KeysView keys,
                   std::span<const float> values) override {
    add_rows({table, columns}, keys, values);
  }

  void add_rows(const RowsOf& of, KeysView keys, std::span<const float> values) {
    const TableId table = of.table;
    if (keys.empty() && values.empty()) return;
    if (keys.empty() || values.empty() || values.size() % keys.size() != 0)
      fail(ErrorCode::kInvalid, "checkpoint '{}', table number {}: {} floats for {} keys", final(), table,
           values.size(), keys.size());
    const RowShape shape{keys.kind, static_cast<uint32_t>(values.size() / keys.size())};
    RowsWriter& file = file_of(of, shape);
    check_shape(table, shape, file.shape());
    file.add(keys, values);
  }

  void finish(const ModelSpec& model, json manifest) override {
    if (!files_.empty() && files_.rbegin()->first.table >= model.tables.size())
      fail(ErrorCode::kInvalid, "checkpoint '{}': rows of table number {}, but the model has {} tables",
           final(), files_.rbegin()->first.table, model.tables.size());
    const bool has_columns =
        std::ranges::any_of(files_, [](const auto& file) { return !file.first.columns.empty(); });
    manifest["format"] = has_columns ? kFormatOfColumns : kFormat;
    manifest["tables"] = json::array();
    manifest["dense"] = json::array();
    manifest["files"] = json::array();
    for (const TableSpec& table : model.tables) manifest["tables"].push_back(table_to_json(table));
    for (const DenseParam& param : model.dense) manifest["dense"].push_back(dense_to_json(param));
    for (TableId table = 0; table < model.tables.size(); ++table)
      manifest["files"].push_back(seal(table, model.tables[table]));
    const std::string rows = next_rows(disk_, paths_);
    const auto complete = [&](json& file) {
      file["name"] = fmt::format("{}/{}", rows, file["name"].get<std::string>());
    };
    for (json& entry : manifest["files"])
      if (entry.contains("columns"))
        std::ranges::for_each(entry["columns"], complete);
      else
        complete(entry);
    write_manifest(manifest);
    replace_checkpoint(disk_, paths_, rows);
  }

 private:
  std::string final() const { return paths_.directory.string(); }

  RowsWriter& file_of(const RowsOf& of, RowShape shape) {
    const auto found = files_.find(of);
    if (found != files_.end()) return found->second;
    return files_.try_emplace(of, disk_.create(paths_.fresh_rows / rows_file(of)), shape).first->second;
  }

  void check_shape(TableId table, RowShape got, RowShape expected) const {
    if (got != expected)
      fail(ErrorCode::kInvalid, "checkpoint '{}', table number {}: rows have {}, expected {}", final(), table,
           to_string(got), to_string(expected));
  }

  // Ends the table's files (a table without rows gets one too) and describes them.
  json seal(TableId table, const TableSpec& spec) {
    json columns = json::array();
    for (auto file = files_.lower_bound({table, {}}); file != files_.end() && file->first.table == table;
         ++file) {
      const ColumnRange range = file->first.columns;
      if (range.empty()) continue;
      columns.push_back(seal(file->first, shape_of(spec, range)));
      columns.back()["begin"] = range.begin;
      columns.back()["end"] = range.end;
    }
    if (columns.empty()) return seal(RowsOf{table, {}}, shape_of(spec));
    return {{"columns", columns}};
  }

  json seal(const RowsOf& of, RowShape shape) {
    RowsWriter& file = file_of(of, shape);
    check_shape(of.table, file.shape(), shape);
    const RowsSeal seal = file.finish();
    return {{"name", rows_file(of)},
            {"rows", seal.rows},
            {"bytes", seal.bytes},
            {"checksum", hex(seal.checksum)}};
  }

  void write_manifest(json& manifest) const {
    const auto file = disk_.create(fresh_path(paths_.manifest));
    try {
      manifest["checksum"] = checksum_of(manifest);
      file->write(manifest.dump(2) + "\n");
    } catch (const json::exception& error) {
      fail(ErrorCode::kInvalid, "checkpoint '{}': the manifest cannot be written as JSON: {}", final(),
           error.what());
    }
    file->sync();
  }

  Disk& disk_;
  const CheckpointPaths paths_;
  std::map<RowsOf, RowsWriter> files_;
};

// All files are opened at once, so that the checkpoint can be read to its end even if it is replaced
// meanwhile.
class Reader final : public CheckpointReader {
 public:
  Reader(const std::string& directory, Disk& disk) : directory_(open_directory(directory, disk)) {
    // Once the next manifest is in place, the files that this one names are gone. In that case the next one
    // is read.
    for (int tries = 1;; ++tries) {
      try {
        load();
        return;
      } catch (const Error&) {
        if (tries == kTries || !disk.exists(directory_->path() + "/" + kManifestFile)) throw;
      }
    }
  }

  const json& manifest() const override { return manifest_; }
  const ModelSpec& model() const override { return model_; }

  void read(TableId table, size_t limit, const Visitor& visit) const override {
    if (table >= files_.size())
      fail(ErrorCode::kUnknownTable, "checkpoint '{}' has no table number {}: it has {} tables",
           directory_->path(), table, files_.size());
    if (const auto& files = files_[table]; files.size() == 1 && files[0].columns == whole(table))
      files[0].reader.read(limit, visit);
    else
      read_joined(table, limit, visit);
  }

 private:
  static constexpr int kTries = 3;

  // Rows, or some columns of them.
  struct Rows {
    ColumnRange columns;
    uint64_t rows;
    RowsReader reader;
  };

  ColumnRange whole(TableId table) const { return {0, model_.tables[table].dim}; }

  void read_joined(TableId table, size_t limit, const Visitor& visit) const {
    const TableSpec& spec = model_.tables[table];
    const uint32_t width = shape_of(spec).floats;
    uint64_t rows = 0;
    for (const Rows& file : files_[table]) rows = std::max(rows, file.rows);
    const uint64_t passes = rows * width * sizeof(float) / kJoinBytes + 1;
    for (uint64_t pass = 0; pass < passes; ++pass) {
      ColumnJoin join(spec.key_kind, spec.dim, width / spec.dim, passes, pass);
      for (const Rows& file : files_[table])
        file.reader.read(limit, [&](KeysView keys, std::span<const float> values) {
          join.add(file.columns, keys, values);
        });
      join.visit(limit, visit);
    }
  }

  static std::unique_ptr<const File> open_directory(const std::string& directory, Disk& disk) {
    const CheckpointPaths paths = checkpoint_paths(directory);
    if (!disk.exists(paths.manifest))
      fail(ErrorCode::kInvalid, "there is no checkpoint at '{}': it has no {}", paths.directory.string(),
           kManifestFile);
    return disk.open(paths.directory);
  }

  void load() {
    const auto file = directory_->open_in(kManifestFile);
    model_ = {};
    files_.clear();
    try {
      load_manifest(*file);
      load_model();
      open_files();
    } catch (const json::exception& error) {
      fail(ErrorCode::kCorrupt, "'{}' cannot be read back: {}; use another checkpoint", file->path(),
           error.what());
    }
  }

  void load_manifest(const File& file) {
    manifest_ = json::parse(file.read_all());
    if (manifest_.at("checksum") != checksum_of(manifest_))
      fail(ErrorCode::kCorrupt, "'{}' cannot be read back: its checksum is wrong; use another checkpoint",
           file.path());
    if (manifest_.at("format") != kFormat && manifest_.at("format") != kFormatOfColumns)
      fail(ErrorCode::kInvalid,
           "'{}' has format {}, but this program reads formats {} and {}: use the version of embers that "
           "wrote it",
           file.path(), manifest_.at("format").dump(), kFormat, kFormatOfColumns);
  }

  void load_model() {
    for (const json& table : manifest_.at("tables")) model_.tables.push_back(table_from_json(table));
    for (const json& param : manifest_.at("dense")) model_.dense.push_back(dense_from_json(param));
  }

  void open_files() {
    for (TableId table = 0; table < model_.tables.size(); ++table) {
      const json& entry = manifest_.at("files").at(table);
      auto& files = files_.emplace_back();
      if (!entry.contains("columns"))
        files.push_back(open_rows(entry, model_.tables[table], whole(table)));
      else
        for (const json& file : entry.at("columns"))
          files.push_back(open_rows(file, model_.tables[table], next_columns(file, files, table)));
    }
  }

  // Those of a file after others of its table.
  ColumnRange next_columns(const json& file, const std::vector<Rows>& before, TableId table) const {
    const ColumnRange columns{file.at("begin"), file.at("end")};
    const uint32_t begin = before.empty() ? 0 : before.back().columns.end, end = whole(table).end;
    if (columns.begin < begin || columns.begin >= columns.end || columns.end > end)
      fail(ErrorCode::kCorrupt,
           "'{}' cannot be read back: columns {} to {} of table '{}' are not within {} to {}; use another "
           "checkpoint",
           directory_->path(), columns.begin, columns.end, model_.tables[table].name, begin, end);
    return columns;
  }

  Rows open_rows(const json& entry, const TableSpec& table, ColumnRange columns) const {
    const RowsSeal seal{entry.at("rows"), entry.at("bytes"), from_hex(entry.at("checksum"))};
    return {columns, seal.rows, RowsReader(open_rows(entry.at("name")), shape_of(table, columns), seal)};
  }

  std::unique_ptr<const File> open_rows(const std::string& name) const {
    try {
      return directory_->open_in(name);
    } catch (const Error& error) {
      fail(ErrorCode::kCorrupt, "{}; the checkpoint is incomplete: use another one", error.what());
    }
  }

  const std::unique_ptr<const File> directory_;
  json manifest_;
  ModelSpec model_;
  std::vector<std::vector<Rows>> files_;  // of each table: one, or one for each range of columns
};

}  // namespace

std::unique_ptr<CheckpointWriter> CheckpointWriter::make(const std::string& directory, Disk& disk) {
  return std::make_unique<Writer>(directory, disk);
}

std::unique_ptr<CheckpointReader> CheckpointReader::open(const std::string& directory, Disk& disk) {
  return std::make_unique<Reader>(directory, disk);
}

}  // namespace embers::storage
