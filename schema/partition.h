#pragma once

#include <cstdint>
#include <vector>

#include "schema/ids.h"

namespace embers {

inline constexpr uint32_t kDefaultBuckets = 4096;

// The owner map, *token* strategy: a key's hash gives its bucket, the map gives the bucket's owner.
// Versioned and changed by the master only.
struct OwnerMap {
  uint32_t version = 0;
  std::vector<uint16_t> owner_of_bucket;

  uint32_t buckets() const { return static_cast<uint32_t>(owner_of_bucket.size()); }
};

// Buckets spread evenly and contiguously over `owners`; kInvalid unless 1 <= owners <= buckets.
OwnerMap even_owner_map(uint32_t owners, uint32_t buckets = kDefaultBuckets, uint32_t version = 1);

// Bucket of a key's hash (see hash_key): a function of the key and the number of buckets only.
inline uint32_t bucket_of(uint64_t hash, uint32_t buckets) {
  return static_cast<uint32_t>((static_cast<unsigned __int128>(hash) * buckets) >> 64);
}

inline uint16_t owner_of(const OwnerMap& map, uint64_t hash) {
  return map.owner_of_bucket[bucket_of(hash, map.buckets())];
}

}  // namespace embers
