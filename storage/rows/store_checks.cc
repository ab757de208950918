#include "storage/rows/store_checks.h"

#include "base/errors.h"

namespace embers::storage {

void check_kind(const std::string& table, KeyKind kind, KeysView keys) {
  if (keys.kind != kind)
    fail(ErrorCode::kInvalid, "table '{}' has {} keys, the request has {} keys", table, embers::name(kind),
         embers::name(keys.kind));
}

void check_size(const std::string& table, const char* what, size_t got, size_t rows, size_t floats_per_row) {
  if (got != rows * floats_per_row)
    fail(ErrorCode::kInvalid, "table '{}': {} for {} keys must be {} numbers, not {}", table, what, rows,
         rows * floats_per_row, got);
}

void fail_missing_key(const std::string& table, KeysView keys, size_t i) {
  fail(ErrorCode::kMissingKey, "table '{}' has no row for key {}: pull a key before pushing its gradient",
       table, to_string(keys, i));
}

}  // namespace embers::storage
