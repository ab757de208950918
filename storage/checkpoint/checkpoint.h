#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/files/disk.h"
#include "schema/partition.h"
#include "schema/table_spec.h"

namespace embers::storage {

// A checkpoint is a directory:
//   manifest.json       what the job was (name, tables with dims, kinds, slots, dense shapes), the data
//                       cursor, the version, and the name, size and checksum of every other file
//   rows-N/NNNN.rows    rows of table NNNN: see rows_file.cc for the grammar
//   rows-N/NNNN-C.rows  of a table whose columns were spread over owners: those of one owner, from C on
// New rows and the manifest are written under temporary names beside the old ones and fsynced; renaming the
// manifest makes the new checkpoint count (see checkpoint_paths.h): a crash leaves either the old one or the
// new one. Other files in the directory are kept.
class CheckpointWriter {
 public:
  // `directory` is the final name; its parent must exist or be creatable. kInvalid naming it if it is not
  // writable, kDisk when the disk is full.
  static std::unique_ptr<CheckpointWriter> make(const std::string& directory, Disk& disk = host_disk());
  virtual ~CheckpointWriter() = default;  // without finish(): removes what was written
  // Rows of one table in any order, any number of calls per table; values[n x (dim + slot_floats)].
  virtual void add(TableId table, KeysView keys, std::span<const float> values) = 0;
  // These columns of them; values[n x (columns + their slot_floats)]. The columns of all owners, in order.
  virtual void add_columns(TableId table, ColumnRange columns, KeysView keys,
                           std::span<const float> values) = 0;
  // Adds the files' entries to `manifest`, makes everything durable, and renames.
  virtual void finish(const ModelSpec& model, nlohmann::json manifest) = 0;
};

class CheckpointReader {
 public:
  // kInvalid when there is no manifest at `directory`; kCorrupt naming the file that cannot be read back.
  static std::unique_ptr<CheckpointReader> open(const std::string& directory, Disk& disk = host_disk());
  virtual ~CheckpointReader() = default;
  virtual const nlohmann::json& manifest() const = 0;
  virtual const ModelSpec& model()
      const = 0;  // tables with their optimizer and initializer specs, dense shapes
  // All rows of one table, in chunks of at most `limit` rows; checks checksums. They are whole, however they
  // were saved; the file of a table whose columns were spread is read several times if its rows take much
  // memory.
  using Visitor = std::function<void(KeysView keys, std::span<const float> values)>;
  virtual void read(TableId table, size_t limit, const Visitor& visit) const = 0;
};

// One line per row, "table<TAB>key<TAB>v0<TAB>v1...", sorted by table name and key (numbers by value, bytes
// by bytes); floats in the shortest form that reads back exactly. Dense chunks are printed without their
// padding. Written under a temporary name first.
class RowDump {
 public:
  static std::unique_ptr<RowDump> make(const std::string& file, const ModelSpec& model);
  virtual ~RowDump() = default;
  virtual void add(TableId table, KeysView keys,
                   std::span<const float> rows) = 0;  // rows[n x dim], without slots
  virtual void finish() = 0;
};

}  // namespace embers::storage
