#include "client/arguments.h"

#include <algorithm>

#include "base/suggest.h"

namespace embers::client::detail {

TableId find_table(const std::vector<embers::TableSpec>& tables, std::string_view name) {
  std::vector<std::string> names;
  for (TableId id = 0; id < tables.size(); ++id) {
    if (is_reserved(tables[id].name)) continue;
    if (tables[id].name == name) return id;
    names.push_back(tables[id].name);
  }
  fail(ErrorCode::kUnknownTable, "the job has no embedding table '{}'{}", name, suggestion(name, names));
}

void check_kind(const embers::TableSpec& table, KeyKind given) {
  if (table.key_kind != given)
    fail(ErrorCode::kInvalid, "table '{}' has {} keys, but {} keys were given", table.name,
         embers::name(table.key_kind), embers::name(given));
}

void check_size(const std::string& what, size_t given, size_t expected) {
  if (given != expected)
    fail(ErrorCode::kInvalid, "{} has {} floats, but {} are needed", what, given, expected);
}

std::chrono::steady_clock::time_point after(std::chrono::duration<double> time) {
  using Clock = std::chrono::steady_clock;
  // Longer than anybody waits, and short enough for the clock's range.
  constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24 * 365);
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::clamp(time, decltype(time)(0), kLongest));
}

}  // namespace embers::client::detail
