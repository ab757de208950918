#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "schema/ids.h"
#include "schema/partition.h"

namespace embers::storage {

// Puts rows together whose columns come one range after another, each with the keys in an order of its own.
// Holds all of them, so a large table is joined in several passes, each with some of the keys.
class ColumnJoin {
 public:
  // Rows of `parts` x dim floats: the row itself and its slots.
  ColumnJoin(KeyKind kind, uint32_t dim, size_t parts, uint64_t passes = 1, uint64_t pass = 0)
      : dim_(dim), parts_(parts), passes_(passes), pass_(pass), keys_(kind) {}

  // values[keys x parts x columns.size()]; each column of a key at most once.
  void add(ColumnRange columns, KeysView keys, std::span<const float> values);

  // The rows of which all columns are there, in parts of at most `limit`. An owner makes its columns of a row
  // when it is first asked for them; a row that not all owners have made was never trained and has its first
  // values, so it is left out, and made again when it is used.
  using Visitor = std::function<void(KeysView keys, std::span<const float> values)>;
  void visit(size_t limit, const Visitor& visit) const;

 private:
  size_t place_of(KeysView keys, size_t i);
  size_t width() const { return parts_ * dim_; }

  const size_t dim_, parts_;
  const uint64_t passes_, pass_;
  Keys keys_;
  std::unordered_map<int64_t, size_t> ints_;
  std::unordered_map<std::string, size_t> bytes_;
  std::vector<float> rows_;        // keys x parts x dim
  std::vector<uint32_t> columns_;  // of each key: how many are there
};

}  // namespace embers::storage
