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
// that a row is absent may mean that it was never made or that it is lost, which only its owner can tell.
// Every row is one that its owner wrote, whole; rows of one gather may be of different versions.
//
// A server that does not answer is kUnavailable naming it and the reason; the reader cannot be used any more
// after that. *Thread safety*: none.
class ExternalReader {
 public:
  // Tables are numbered in this order.
  ExternalReader(KeyValueServers servers, const ReaderOptions& options, std::span<const TableSpec> tables);

  // For each owner a version that every gather() from now on shows, in full, or a later one; none of an owner
  // that has not published any (ExternalStore::publish), or whose word on it is lost.
  std::vector<std::optional<uint64_t>> versions();

  // Copies rows to their places, those of all tables at once; found[i] says whether key i has a row, out is
  // left alone where it has none. Each table may be given once at most. Returns how many rows were found.
  // kCorrupt for a value that is not a row of its table.
  struct TableRead {
    TableId table;
    KeysView keys;
    std::span<float> out;      // keys x dim
    std::span<uint8_t> found;  // one a key
  };
  size_t gather(std::span<const TableRead> reads);

 private:
  struct Table {
    TableSpec spec;
    StoredNames names;
    bool asked = false;  // in the gather under way
  };

  const ReaderOptions options_;
  ServerReads reads_;
  std::deque<Table> tables_;
  std::vector<std::string> version_names_;  // by owner
};

}  // namespace embers::storage
