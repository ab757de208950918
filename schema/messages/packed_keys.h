#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace embers {

// How a message has its keys: read in place; or in fewer bytes, packed, and what several tables have in
// common once, which takes some work at both ends.
enum class KeysSent { kAsTheyAre, kPacked };

// int64 keys in fewer bytes, for connections where bytes are dear: what each key exceeds the least one by, in
// as many bytes, little-endian, as the largest excess needs. Hashed ids below 100 000 take 3 bytes instead
// of 8.
struct KeyPacking {
  int64_t least = 0;
  uint32_t bytes_per_key = 8;  // 1 to 8

  // What these keys need. With 8 bytes there is nothing to gain.
  static KeyPacking of(std::span<const int64_t> keys);
};

// Writes keys.size() x packing.bytes_per_key bytes; `packing` must be that of these keys.
void pack(const KeyPacking& packing, std::span<const int64_t> keys, std::byte* out);

// Reads out.size() keys from as many x packing.bytes_per_key bytes. Any bytes are keys.
void unpack(const KeyPacking& packing, const std::byte* packed, std::span<int64_t> out);

}  // namespace embers
