#include "actors/routing/route.h"

#include <cstring>
#include <numeric>

namespace embers {

namespace {

// One owner gets all.
Routed route_whole(std::span<const TableKeyList> tables) {
  Routed routed(1);
  for (size_t source = 0; source < tables.size(); ++source) {
    const TableKeyList& t = tables[source];
    if (t.keys.empty()) continue;
    std::vector<uint32_t> positions(t.keys.size());
    std::iota(positions.begin(), positions.end(), 0);
    routed[0].push_back({t.table, source, Keys(t.keys), std::move(positions)});
  }
  return routed;
}

// How many positions from `i` on are consecutive.
size_t run_at(std::span<const uint32_t> positions, size_t i) {
  size_t n = 1;
  while (i + n < positions.size() && positions[i + n] == positions[i] + n) ++n;
  return n;
}

}  // namespace

Routed route(std::span<const TableKeyList> tables, const OwnerMap& map, size_t owners,
             std::span<const std::vector<uint8_t>> found) {
  if (owners == 1 && found.empty()) return route_whole(tables);
  Routed routed(owners);
  std::vector<int64_t> place(owners);  // of the current table in each owner's list
  for (size_t source = 0; source < tables.size(); ++source) {
    const TableKeyList& t = tables[source];
    std::fill(place.begin(), place.end(), -1);
    for (size_t i = 0; i < t.keys.size(); ++i) {
      if (!found.empty() && found[source][i]) continue;
      const size_t owner = owners == 1 ? 0 : owner_of(map, hash_key(t.keys, i));
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

void scatter(const SentRows& rows, uint32_t dim, std::span<const uint32_t> positions, std::span<float> out) {
  for (size_t i = 0, n; i < positions.size(); i += n) {
    n = run_at(positions, i);
    const std::span<float> to = out.subspan(size_t{positions[i]} * dim, n * dim);
    if (rows.halves.empty())
      std::memcpy(to.data(), &rows.floats[i * dim], to.size_bytes());
    else
      from_halves(rows.number_type, &rows.halves[i * dim], to);
  }
}

void collect(std::span<const float> values, uint32_t dim, std::span<const uint32_t> positions,
             std::span<float> out) {
  for (size_t i = 0, n; i < positions.size(); i += n) {
    n = run_at(positions, i);
    std::memcpy(&out[i * dim], &values[size_t{positions[i]} * dim], n * dim * sizeof(float));
  }
}

}  // namespace embers
