#pragma once

#include <string>
#include <utility>
#include <vector>

#include "schema/table_spec.h"

namespace embers::storage {

inline Keys ints(std::vector<int64_t> keys) { return Keys(std::move(keys)); }
inline Keys strings(const std::vector<std::string>& keys) { return Keys(keys); }

inline TableSpec spec(std::string name, uint32_t dim, KeyKind kind = KeyKind::kInt64) {
  TableSpec table;
  table.name = std::move(name);
  table.dim = dim;
  table.key_kind = kind;
  return table;
}

}  // namespace embers::storage
