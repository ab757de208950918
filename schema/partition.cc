#include "schema/partition.h"

#include <algorithm>

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

uint32_t OwnerMap::owners() const {
  return owner_of_bucket.empty() ? 0 : 1 + *std::max_element(owner_of_bucket.begin(), owner_of_bucket.end());
}

namespace {

uint64_t columns_each(uint32_t dim, uint32_t owners) { return (uint64_t{dim} + owners - 1) / owners; }

}  // namespace

ColumnRange columns_of(uint32_t dim, uint32_t owner, uint32_t owners) {
  const uint64_t each = columns_each(dim, owners);
  const auto at = [&](uint64_t i) { return static_cast<uint32_t>(std::min<uint64_t>(dim, i * each)); };
  return {at(owner), at(uint64_t{owner} + 1)};
}

uint32_t owners_with_columns(uint32_t dim, uint32_t owners) {
  const uint64_t each = columns_each(dim, owners);
  return each == 0 ? 0 : static_cast<uint32_t>((dim + each - 1) / each);
}

TableSpec part_of(const TableSpec& table, uint32_t owner, uint32_t owners) {
  TableSpec part = table;
  if (!is_split(table, owners)) return part;
  const ColumnRange columns = columns_of(table.dim, owner, owners);
  part.dim = std::max(columns.size(), 1u);
  part.first_column = columns.begin;
  part.row_dim = table.dim;
  return part;
}

}  // namespace embers
