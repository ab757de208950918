#include "storage/checkpoint/checkpoint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <charconv>
#include <map>

#include "base/files/output_file.h"
#include "storage/checkpoint/checkpoint_paths.h"
#include "storage/checkpoint/model_json.h"
#include "storage/checkpoint/rows_file.h"
#include "storage/update_rules/update_rule.h"

namespace embers::storage {
namespace {

using nlohmann::json;

// The manifest, besides the job's own entries:
//   format    1
//   tables    [{name, dim, key_kind, input_dim, initializer, optimizer, constraint, slots, accumulation}],
//             table 0 first
//   dense     [{name, shape, buffer}]
//   files     [{name (with its rows-N/), rows, bytes, checksum}], that of table 0 first
//   checksum  XXH3 of the manifest without this entry, in nlohmann's shortest form (keys sorted, no blanks)
constexpr int kFormat = 1;

std::string rows_file(TableId table) { return fmt::format("{:04}.rows", table); }

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
    if (keys.empty() && values.empty()) return;
    if (keys.empty() || values.empty() || values.size() % keys.size() != 0)
      fail(ErrorCode::kInvalid, "checkpoint '{}', table number {}: {} floats for {} keys", final(), table,
           values.size(), keys.size());
    const RowShape shape{keys.kind, static_cast<uint32_t>(values.size() / keys.size())};
    RowsWriter& file = file_of(table, shape);
    check_shape(table, shape, file.shape());
    file.add(keys, values);
  }

  void finish(const ModelSpec& model, json manifest) override {
    if (!files_.empty() && files_.rbegin()->first >= model.tables.size())
      fail(ErrorCode::kInvalid, "checkpoint '{}': rows of table number {}, but the model has {} tables",
           final(), files_.rbegin()->first, model.tables.size());
    manifest["format"] = kFormat;
    manifest["tables"] = json::array();
    manifest["dense"] = json::array();
    manifest["files"] = json::array();
    for (const TableSpec& table : model.tables) manifest["tables"].push_back(table_to_json(table));
    for (const DenseParam& param : model.dense) manifest["dense"].push_back(dense_to_json(param));
    for (TableId table = 0; table < model.tables.size(); ++table)
      manifest["files"].push_back(seal(table, shape_of(model.tables[table])));
    const std::string rows = next_rows(disk_, paths_);
    for (json& file : manifest["files"])
      file["name"] = fmt::format("{}/{}", rows, file["name"].get<std::string>());
    write_manifest(manifest);
    replace_checkpoint(disk_, paths_, rows);
  }

 private:
  std::string final() const { return paths_.directory.string(); }

  RowsWriter& file_of(TableId table, RowShape shape) {
    const auto found = files_.find(table);
    if (found != files_.end()) return found->second;
    return files_.try_emplace(table, disk_.create(paths_.fresh_rows / rows_file(table)), shape).first->second;
  }

  void check_shape(TableId table, RowShape got, RowShape expected) const {
    if (got != expected)
      fail(ErrorCode::kInvalid, "checkpoint '{}', table number {}: rows have {}, expected {}", final(), table,
           to_string(got), to_string(expected));
  }

  // Ends the table's file (a table without rows gets one too) and describes it.
  json seal(TableId table, RowShape shape) {
    RowsWriter& file = file_of(table, shape);
    check_shape(table, file.shape(), shape);
    const RowsSeal seal = file.finish();
    return {{"name", rows_file(table)},
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
  std::map<TableId, RowsWriter> files_;
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
    files_[table].read(limit, visit);
  }

 private:
  static constexpr int kTries = 3;

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
    if (manifest_.at("format") != kFormat)
      fail(ErrorCode::kInvalid,
           "'{}' has format {}, but this program reads format {}: use the version of embers that wrote it",
           file.path(), manifest_.at("format").dump(), kFormat);
  }

  void load_model() {
    for (const json& table : manifest_.at("tables")) model_.tables.push_back(table_from_json(table));
    for (const json& param : manifest_.at("dense")) model_.dense.push_back(dense_from_json(param));
  }

  void open_files() {
    for (TableId table = 0; table < model_.tables.size(); ++table) {
      const json& entry = manifest_.at("files").at(table);
      const RowsSeal seal{entry.at("rows"), entry.at("bytes"), from_hex(entry.at("checksum"))};
      files_.emplace_back(open_rows(entry.at("name")), shape_of(model_.tables[table]), seal);
    }
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
  std::vector<RowsReader> files_;  // one per table
};

}  // namespace

std::unique_ptr<CheckpointWriter> CheckpointWriter::make(const std::string& directory, Disk& disk) {
  return std::make_unique<Writer>(directory, disk);
}

std::unique_ptr<CheckpointReader> CheckpointReader::open(const std::string& directory, Disk& disk) {
  return std::make_unique<Reader>(directory, disk);
}

}  // namespace embers::storage
