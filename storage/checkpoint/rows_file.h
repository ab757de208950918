#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/floats/float_buffer.h"
#include "schema/ids.h"
#include "storage/rows/store.h"

namespace embers::storage {

// What rows of one file look like.
struct RowShape {
  KeyKind kind = KeyKind::kInt64;
  uint32_t floats = 0;  // per row, slots included
  friend bool operator==(const RowShape&, const RowShape&) = default;
};

// What a finished file must look like when it is read back.
struct RowsSeal {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

// Writes the rows of one table of a checkpoint, to a new file.
class RowsWriter {
 public:
  RowsWriter(std::unique_ptr<File> file, RowShape shape);

  const RowShape& shape() const { return shape_; }
  // values[keys.size() x floats]; keys of the shape's kind.
  void add(KeysView keys, std::span<const float> values);
  // Ends the file and makes it durable.
  RowsSeal finish();

 private:
  void write_block(KeysView keys, std::span<const float> values);
  void write_chained(std::string& bytes);

  std::unique_ptr<File> file_;
  RowShape shape_;
  RowsSeal seal_;      // so far
  std::string block_;  // scratch
};

// Reads such a file back; kCorrupt naming the file if it is not what RowsWriter wrote.
class RowsReader {
 public:
  // Checks the size and the header.
  RowsReader(std::unique_ptr<const File> file, RowShape shape, RowsSeal seal);
  // All rows, in chunks of at most `limit`; a chunk is only passed to `visit` if its checksum is right.
  void read(size_t limit, const Store::Visitor& visit) const;

 private:
  struct Block;

  uint64_t check_header() const;
  bool next(Block& block) const;
  void check_end(const Block& block) const;
  void load(Block& block, uint64_t payload) const;
  KeysView keys_of(const Block& block) const;
  [[noreturn]] void fail_corrupt(const std::string& why) const;

  std::unique_ptr<const File> file_;
  RowShape shape_;
  RowsSeal seal_;
};

}  // namespace embers::storage
