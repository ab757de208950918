#include "base/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace embers {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view wrong, std::span<const std::string> known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, wrong.size() / 2) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(wrong, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view wrong, std::span<const std::string> known) {
  if (const std::string best = nearest(wrong, known); !best.empty())
    return fmt::format("; did you mean '{}'?", best);
  if (known.empty()) return "";
  return fmt::format("; known: {}", fmt::join(known, ", "));
}

}  // namespace embers
