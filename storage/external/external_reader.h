#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schema/ids.h"
#include "schema/table_spec.h"
#include "storage/external/server_reads.h"

namespace embers::storage {

// Whose rows a reader reads.
struct ReaderOptions {
  std::string job;      // name
  uint64_t run = 0;     // number of the job's run: rows of other runs count as absent
  uint32_t owners = 1;  // how many there are
};

// The latest rows of a job, straight from the servers that its owners' ExternalStores write them to: all keys
// of a table at once, whichever owners they belong to. It changes nothing, sees no slots, and knows no keys:
// an absent row may never have been made, or may be lost; only its owner can tell. Every row is complete, as
// its owner wrote it; rows of one gather may be of different versions.
//
// A server that does not answer is kUnavailable naming it and the reason; the reader can no longer be used
// after that. *Thread safety*: none.
class ExternalReader {
 public:
  // Tables are numbered in this order.
  ExternalReader(KeyValueServers servers, const ReaderOptions& options, std::span<const TableSpec> tables);

  // For each owner, a version: every gather() from now on shows it in full, or a later one. None for an owner
  // that has not published any (ExternalStore::publish), or whose published version is lost.
  std::vector<std::optional<uint64_t>> versions();

  // Copies rows to their places, those of all tables at once; found[i] says whether key i has a row; out is
  // left alone where it has none. Each table may be given at most once. Returns how many rows were found.
  // kCorrupt for a value that is not a row of its table.
  struct TableRead {
    TableId table;
    KeysView keys;
    std::span<float> out;      // keys x dim
    std::span<uint8_t> found;  // one per key
  };
  size_t gather(std::span<const TableRead> reads);

 private:
  struct Table {
    TableSpec spec;
    StoredNames names;
    bool asked = false;  // in the current gather
  };

  const ReaderOptions options_;
  ServerReads reads_;
  std::deque<Table> tables_;
  std::vector<std::string> version_names_;  // by owner
};

}  // namespace embers::storage
