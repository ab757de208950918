#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/ids.h"
#include "schema/table_spec.h"
#include "storage/file.h"

namespace embers::storage {

// What a shard writes down of an external store's tables, so that one that was killed in the middle of a
// write-back finishes it, and knows its keys. Two files that are only appended to,
// `<directory>/shard-<n>.keys` with the keys it created and `shard-<n>.values` with what it wrote back; the
// second begins anew when it has grown. What the system has taken counts as written: it outlives the process,
// not the host.
//
// A record, little-endian, of either file:
//   check   u64  XXH3 of all that follows, xored with the run
//   version u64, table u32, kind u32 (KeyKind)
//   keys, key bytes, floats  u64 each
//   int64 keys, or u32 ends and bytes;  then the floats
// A record without keys says that the version of its table is complete. The first record that does not read
// back ends its file: it was being written when the shard died, and nothing was done about it yet.
class WriteBackJournal {
 public:
  struct Values {
    Keys keys;
    std::vector<float> floats;
  };
  // What was left of a table.
  struct Left {
    std::vector<Keys> created;
    uint64_t version = 0;           // the last one, finished or not
    std::optional<Values> pending;  // what of it may not have been written back
  };

  // Opens the files of a shard; those of another run are begun anew. kInvalid naming the path when they
  // cannot be.
  WriteBackJournal(const std::string& directory, uint32_t shard, uint64_t run);

  bool found() const { return found_; }  // files of this run
  Left take(TableId table);              // once

  void created(TableId table, KeysView keys);
  // Before the first value of `version` is written, and after the last.
  void begin(TableId table, uint64_t version, KeysView keys, std::span<const float> floats);
  void done(TableId table, uint64_t version);

 private:
  struct Record;
  void read_back(const std::string& path, bool values);
  void write(File& file, TableId table, uint64_t version, KeysView keys, std::span<const float> floats);
  void restart_values();

  const std::string keys_path_, values_path_;
  const uint64_t run_;
  bool found_ = false;
  std::vector<Left> left_;          // by table
  std::vector<uint64_t> versions_;  // by table
  std::optional<File> keys_, values_;
  uint64_t values_bytes_ = 0;
  std::string record_;  // scratch
};

}  // namespace embers::storage
