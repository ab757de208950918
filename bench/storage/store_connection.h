#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/wire/keys.h"

namespace embers {

inline constexpr size_t kAdamSlots = 2;                                 // in rows
inline constexpr size_t kStoredNumbers = (1 + kAdamSlots) * kBenchDim;  // of a value: a row and its slots

// A connection to a Redis or memcached, of a client that updates. Not thread-safe.
class StoreConnection {
 public:
  using KeySpan = std::span<const int64_t>;
  // Changes the value of the i-th key where it lies.
  using Change = std::function<void(size_t i, float* value)>;

  virtual ~StoreConnection() = default;
  // Sets all to this value.
  virtual void fill(KeySpan keys, const std::vector<float>& value) = 0;
  // Reads, changes and writes all, `chunk` keys in a command. kInternal when a value is missing, or an answer
  // is an error.
  virtual void update(KeySpan keys, size_t chunk, const Change& change) = 0;
};

// "redis" or "memcached" at a Unix socket. kUnavailable when nobody listens there.
std::unique_ptr<StoreConnection> connect_store(const std::string& kind, const std::string& path);

}  // namespace embers
