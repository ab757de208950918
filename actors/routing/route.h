#pragma once

#include <cstdint>
#include <vector>

#include "schema/messages/codec.h"
#include "schema/partition.h"

namespace embers {

// Stage "route": unique keys -> one part per owner. Plain arithmetic, no actors.

// The keys of one table that one owner holds, or of which it holds these columns.
struct RoutedTable {
  TableId table;
  size_t source;  // index of the table in the routed list
  Keys keys;
  std::vector<uint32_t> positions;  // of each key in the source table's list, ascending
  ColumnRange columns;              // all of a table that is not split
};

// For each owner (by number), its tables; those without a key are left out. An owner may end up with none.
using Routed = std::vector<std::vector<RoutedTable>>;

// One list of keys to be routed.
struct TableKeyList {
  TableId table;
  KeysView keys;
};

// Keys of a table whose columns are split go to every owner that has columns. `specs`: by TableId. `found`,
// unless empty, has for each list a flag for each key, or nothing: keys whose flag is set are left out.
Routed route(std::span<const TableKeyList> tables, std::span<const TableSpec> specs, const OwnerMap& map,
             size_t owners, std::span<const std::vector<uint8_t>> found = {});

// Rows that came from one owner go to their places: out[positions[i]] = rows[i], rows of `dim` floats.
void scatter(const SentRows& rows, uint32_t dim, std::span<const uint32_t> positions, std::span<float> out);

// The reverse, for gradients: out[i] = values[positions[i]].
void collect(std::span<const float> values, uint32_t dim, std::span<const uint32_t> positions,
             std::span<float> out);

// The same for some columns of each row: rows[i] has columns.size() floats.
void scatter_columns(const SentRows& rows, uint32_t dim, ColumnRange columns,
                     std::span<const uint32_t> positions, std::span<float> out);
// Where a row is followed by slots, each of as many floats, the same columns of each of these `parts`:
// values[.. x parts x dim], out[positions.size() x parts x columns.size()].
void collect_columns(std::span<const float> values, uint32_t dim, ColumnRange columns,
                     std::span<const uint32_t> positions, std::span<float> out, size_t parts = 1);

}  // namespace embers
