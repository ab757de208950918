#include "actors/routing/route.h"

#include <cstring>
#include <numeric>

namespace embers {

namespace {

// One owner gets all.
Routed route_whole(std::span<const TableKeyList> tables, std::span<const TableSpec> specs) {
  Routed routed(1);
  for (size_t source = 0; source < tables.size(); ++source) {
    const TableKeyList& t = tables[source];
    if (t.keys.empty()) continue;
    std::vector<uint32_t> positions(t.keys.size());
    std::iota(positions.begin(), positions.end(), 0);
    routed[0].push_back({t.table, source, Keys(t.keys), std::move(positions), {0, specs[t.table].dim}});
  }
  return routed;
}

// Every owner with columns gets the keys; `found` is null or has a flag for each.
void route_columns(const TableKeyList& t, size_t source, uint32_t dim, const uint8_t* found, Routed& routed) {
  Keys keys(t.keys.kind);
  std::vector<uint32_t> positions;
  for (size_t i = 0; i < t.keys.size(); ++i) {
    if (found != nullptr && found[i]) continue;
    keys.push_back_from(t.keys, i);
    positions.push_back(static_cast<uint32_t>(i));
  }
  if (keys.empty()) return;
  const auto owners = static_cast<uint32_t>(routed.size());
  for (uint32_t owner = 0; owner < owners_with_columns(dim, owners); ++owner)
    routed[owner].push_back({t.table, source, keys, positions, columns_of(dim, owner, owners)});
}

// How many positions from `i` on are consecutive.
size_t run_at(std::span<const uint32_t> positions, size_t i) {
  size_t n = 1;
  while (i + n < positions.size() && positions[i + n] == positions[i] + n) ++n;
  return n;
}

}  // namespace

Routed route(std::span<const TableKeyList> tables, std::span<const TableSpec> specs, const OwnerMap& map,
             size_t owners, std::span<const std::vector<uint8_t>> found) {
  if (owners == 1 && found.empty()) return route_whole(tables, specs);
  Routed routed(owners);
  std::vector<int64_t> place(owners);  // of the current table in each owner's list
  for (size_t source = 0; source < tables.size(); ++source) {
    const TableKeyList& t = tables[source];
    const uint8_t* const flags = found.empty() || found[source].empty() ? nullptr : found[source].data();
    if (is_split(specs[t.table], owners)) {
      route_columns(t, source, specs[t.table].dim, flags, routed);
      continue;
    }
    std::fill(place.begin(), place.end(), -1);
    for (size_t i = 0; i < t.keys.size(); ++i) {
      if (flags != nullptr && flags[i]) continue;
      const size_t owner = owners == 1 ? 0 : owner_of(map, hash_key(t.keys, i));
      if (place[owner] < 0) {
        place[owner] = static_cast<int64_t>(routed[owner].size());
        routed[owner].push_back({t.table, source, Keys(t.keys.kind), {}, {0, specs[t.table].dim}});
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

void scatter_columns(const SentRows& rows, uint32_t dim, ColumnRange columns,
                     std::span<const uint32_t> positions, std::span<float> out) {
  const size_t n = columns.size();
  for (size_t i = 0; i < positions.size(); ++i) {
    const std::span<float> to = out.subspan(size_t{positions[i]} * dim + columns.begin, n);
    if (rows.halves.empty())
      std::memcpy(to.data(), &rows.floats[i * n], to.size_bytes());
    else
      from_halves(rows.number_type, &rows.halves[i * n], to);
  }
}

void collect_columns(std::span<const float> values, uint32_t dim, ColumnRange columns,
                     std::span<const uint32_t> positions, std::span<float> out, size_t parts) {
  const size_t n = columns.size();
  float* to = out.data();
  for (const uint32_t position : positions)
    for (size_t part = 0; part < parts; ++part, to += n)
      std::memcpy(to, &values[(position * parts + part) * dim + columns.begin], n * sizeof(float));
}

}  // namespace embers
