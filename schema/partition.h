#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "schema/ids.h"
#include "schema/table_spec.h"

namespace embers {

inline constexpr uint32_t kDefaultBuckets = 4096;

// The owner map: a key's hash gives its bucket, the map gives the bucket's owner. Tables with the *token*
// partition, dense parameters among them, are spread by it. Versioned and changed by the master only.
struct OwnerMap {
  uint32_t version = 0;
  std::vector<uint16_t> owner_of_bucket;

  uint32_t buckets() const { return static_cast<uint32_t>(owner_of_bucket.size()); }
  uint32_t owners() const;  // each of them has a bucket
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

// The columns [begin, end) of every row of a table.
struct ColumnRange {
  uint32_t begin = 0, end = 0;
  uint32_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend auto operator<=>(const ColumnRange&, const ColumnRange&) = default;
};

// The columns that one owner of a table with the *encoding* partition has: ceil(dim / owners) of them; the
// last owners have fewer, or none.
ColumnRange columns_of(uint32_t dim, uint32_t owner, uint32_t owners);

// How many owners have columns at all; they are the first ones.
uint32_t owners_with_columns(uint32_t dim, uint32_t owners);

// Whether owners share the columns of this table.
inline bool is_split(const TableSpec& table, size_t owners) {
  return table.partition == Partition::kEncoding && owners > 1;
}

// The table as an owner keeps it: whole rows, or its columns of them. An owner without columns gets one of
// padding, and no keys.
TableSpec part_of(const TableSpec& table, uint32_t owner, uint32_t owners);

}  // namespace embers
