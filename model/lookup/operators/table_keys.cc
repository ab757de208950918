#include "model/lookup/operators/table_keys.h"

#include "base/errors.h"

namespace embers {
namespace {

std::string_view bytes_of(KeysView keys, size_t i) {
  if (keys.kind == KeyKind::kBytes) return keys.bytes_at(i);
  return {reinterpret_cast<const char*>(&keys.ints[i]), sizeof(int64_t)};
}

}  // namespace

TableKeys::TableKeys(KeysView keys) : kind_(keys.kind) {
  for (size_t i = 0; i < keys.size(); ++i)
    if (!row_of_.emplace(bytes_of(keys, i), static_cast<int64_t>(i)).second)
      fail(ErrorCode::kInvalid, "two rows of the table have the key '{}'", to_string(keys, i));
}

std::vector<int64_t> TableKeys::rows(KeysView ids) const {
  if (ids.kind != kind_)
    fail(ErrorCode::kInvalid, "a table with {} keys was given {} ids", name(kind_), name(ids.kind));
  std::vector<int64_t> rows(ids.size(), -1);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string_view bytes = bytes_of(ids, i);
    if (bytes.empty()) continue;
    const auto found = row_of_.find(bytes);
    if (found == row_of_.end())
      fail(ErrorCode::kInvalid, "key '{}' (number {} of the ids) is out of range: no row of the table has it",
           to_string(ids, i), i);
    rows[i] = found->second;
  }
  return rows;
}

}  // namespace embers
