#include "actors/route.h"

#include <cstring>

namespace embers {

Routed route(std::span<const TableKeyList> tables, const ShardMap& map, size_t owners,
             std::span<const std::vector<uint8_t>> found) {
  Routed routed(owners);
  std::vector<int64_t> place(owners);  // of the current table in each owner's list
  for (size_t source = 0; source < tables.size(); ++source) {
    const TableKeyList& t = tables[source];
    std::fill(place.begin(), place.end(), -1);
    for (size_t i = 0; i < t.keys.size(); ++i) {
      if (!found.empty() && found[source][i]) continue;
      const size_t owner = owners == 1 ? 0 : shard_of(map, hash_key(t.keys, i));
      if (place[owner] < 0) {
        place[owner] = static_cast<int64_t>(routed[owner].size());
        routed[owner].push_back({t.table, source, Keys(t.keys.kind), {}});
        routed[owner].back().positions.reserve(found.empty() ? t.keys.size() / owners + 1 : 0);
      }
      RoutedTable& part = routed[owner][place[owner]];
      part.keys.push_back_from(t.keys, i);
      part.positions.push_back(static_cast<uint32_t>(i));
    }
  }
  return routed;
}

void scatter(std::span<const float> rows, uint32_t dim, std::span<const uint32_t> positions,
             std::span<float> out) {
  for (size_t i = 0; i < positions.size(); ++i)
    std::memcpy(&out[size_t{positions[i]} * dim], &rows[i * dim], dim * sizeof(float));
}

void collect(std::span<const float> values, uint32_t dim, std::span<const uint32_t> positions,
             std::span<float> out) {
  for (size_t i = 0; i < positions.size(); ++i)
    std::memcpy(&out[i * dim], &values[size_t{positions[i]} * dim], dim * sizeof(float));
}

}  // namespace embers
