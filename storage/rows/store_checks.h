#pragma once

#include <string>

#include "schema/ids.h"

namespace embers::storage {

// What every store checks of its arguments. Errors are kInvalid and name the table.
void check_kind(const std::string& table, KeyKind kind, KeysView keys);
void check_size(const std::string& table, const char* what, size_t got, size_t rows, size_t floats_per_row);

// kMissingKey: update() was given the i-th of `keys`, which has no row.
[[noreturn]] void fail_missing_key(const std::string& table, KeysView keys, size_t i);

}  // namespace embers::storage
