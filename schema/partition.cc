#include "schema/partition.h"

namespace embers {

OwnerMap even_owner_map(uint32_t owners, uint32_t buckets, uint32_t version) {
  if (owners == 0 || owners > buckets || owners > UINT16_MAX)
    fail(ErrorCode::kInvalid,
         "{} shards cannot share {} buckets: set storage.shards to a number from 1 to {}", owners, buckets,
         buckets);
  OwnerMap map{version, std::vector<uint16_t>(buckets)};
  for (uint64_t b = 0; b < buckets; ++b) map.owner_of_bucket[b] = static_cast<uint16_t>(b * owners / buckets);
  return map;
}

}  // namespace embers
