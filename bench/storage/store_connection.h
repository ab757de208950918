#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace embers {

// A connection to a Redis or memcached whose values all have the same size, as lean as we can write it: many
// keys in a command, many commands under way, nothing allocated for a key, every answer looked at. A name is
// 8 characters, which hold 48 bits of a key. Not thread-safe.
class StoreConnection {
 public:
  using KeySpan = std::span<const int64_t>;
  using Visit = std::function<void(size_t i, std::span<const float> value)>;  // of the i-th key
  using Change = std::function<void(size_t i, std::span<float> value)>;

  virtual ~StoreConnection() = default;

  // `chunk`: keys in a command (Redis), or between two looks at the answers (memcached). kInternal when a
  // value is missing, has another size, or is not stored.

  // Sets all to this value.
  virtual void fill(KeySpan keys, size_t chunk, std::span<const float> value) = 0;
  virtual void read(KeySpan keys, size_t chunk, const Visit& visit) = 0;
  // Reads, changes and writes all. While the server reads the values of a chunk, those before it are changed.
  virtual void update(KeySpan keys, size_t chunk, const Change& change) = 0;
};

// The protocols of "redis" or "memcached". Those of one server know values by the same names.
std::span<const std::string_view> store_protocols(std::string_view kind);

// At a Unix socket, with values of so many floats. kUnavailable when nobody listens there.
std::unique_ptr<StoreConnection> connect_store(std::string_view protocol, const std::string& path,
                                               size_t floats);

}  // namespace embers
