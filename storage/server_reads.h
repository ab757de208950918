#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "storage/key_value_server.h"
#include "storage/stored_name.h"
#include "storage/stored_value.h"

namespace embers::storage {

// Reads of a job's values from its servers: what the store of an owner and the reader of a worker share.
// *Thread safety*: none.
class ServerReads {
 public:
  explicit ServerReads(KeyValueServers servers);

  // In order of the addresses that they were connected to by.
  const std::vector<std::unique_ptr<KeyValueServer>>& servers() const { return servers_.all; }
  // Place of the server that holds a name.
  size_t server_of(std::string_view name) const {
    return servers_.all.size() == 1 ? 0 : servers_.server_of(name);
  }

  // Calls visit(i, name, value) for each i-th name that is there. Any number of names, of any servers.
  using Visit = std::function<void(size_t i, std::string_view name, std::string_view value)>;
  void fetch(const std::vector<std::string_view>& names, const Visit& visit);

  // Copies the rows of `keys` that are there, of this run, to out[keys.size() x dim], sets found[i], and
  // calls each(i, tag) for them. Returns how many they are. `names` are those of the table; afterwards they
  // are of `keys`. kCorrupt naming the name of a value that is no row of this table and key.
  using Each = std::function<void(size_t i, const ValueTag& tag)>;
  size_t gather(StoredNames& names, uint64_t run, size_t dim, KeysView keys, std::span<float> out,
                std::span<uint8_t> found, const Each& each);

 private:
  void fetch_one(std::span<const std::string_view> names, size_t begin, const Visit& visit);
  void fetch_spread(const std::vector<std::string_view>& names, size_t begin, size_t end, const Visit& visit);

  const KeyValueServers servers_;

  // Scratch: what of a request goes to each server.
  struct Part {
    std::vector<std::string_view> names;
    std::vector<size_t> places;
  };
  std::vector<Part> parts_;
};

}  // namespace embers::storage
