#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "schema/table_spec.h"

// What callers of client::Session and client::Admin give, checked.
namespace embers::client::detail {

// The number of a table whose rows may be asked for.
TableId find_table(const std::vector<embers::TableSpec>& tables, std::string_view name);
void check_kind(const embers::TableSpec& table, KeyKind given);
void check_size(const std::string& what, size_t given, size_t expected);  // in floats
// From now on; a year at most.
std::chrono::steady_clock::time_point after(std::chrono::duration<double> time);

}  // namespace embers::client::detail
