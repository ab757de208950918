#pragma once

#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "storage/external/key_value_server.h"
#include "storage/external/stored_name.h"
#include "storage/external/stored_value.h"

namespace embers::storage {

// Reads of a job's values from its servers: what the store of an owner and the reader of a worker share.
// *Thread safety*: none.
class ServerReads {
 public:
  explicit ServerReads(KeyValueServers servers);

  // In the order of the addresses that were given to connect to them.
  const std::vector<std::unique_ptr<KeyValueServer>>& servers() const { return servers_.all; }
  // Place of the server that holds a name.
  size_t server_of(std::string_view name) const {
    return servers_.all.size() == 1 ? 0 : servers_.server_of(name);
  }
  KeyValueServer& server(std::string_view name) const { return *servers_.all[server_of(name)]; }

  // Calls visit(i, name, value) for each i-th name that is there. Any number of names, on any servers.
  using Visit = std::function<void(size_t i, std::string_view name, std::string_view value)>;
  void fetch(const std::vector<std::string_view>& names, const Visit& visit);

  // Rows of one table to be read: `names` are the table's, and are afterwards those of `keys`.
  struct TableRead {
    StoredNames* names;
    size_t dim;
    KeysView keys;
    std::span<float> out;      // keys x dim
    std::span<uint8_t> found;  // one a key
  };
  // Copies the rows of this run that are there to their places, sets their found flags, and calls each(t, i,
  // tag) for the i-th key of tables[t]. Returns how many there are. All tables are read at once; each has
  // names of its own. kCorrupt with the name of a value that is not the row of its table and key.
  using Each = std::function<void(size_t t, size_t i, const ValueTag& tag)>;
  size_t gather(uint64_t run, std::span<const TableRead> tables, const Each& each);

 private:
  // The part of a request that goes to each server.
  struct Part {
    std::vector<std::string_view> names;
    std::vector<size_t> places;
    size_t bytes = 0;
  };
  using Parts = std::vector<Part>;
  static constexpr size_t kMostRequests = 2;

  size_t spread(const std::vector<std::string_view>& names, size_t begin, Parts& parts);
  void receive(const Parts& parts, const Visit& visit);

  const KeyValueServers servers_;
  size_t most_requests_ = kMostRequests;  // under way at once, of all servers

  // Scratch.
  std::array<Parts, kMostRequests> parts_;
  std::vector<std::string_view> names_;  // of a gather
  std::vector<size_t> ends_;             // of each table's names in names_
};

}  // namespace embers::storage
