#include "base/floats/copy_floats.h"

#include <cstring>

#include "base/floats/instruction_sets.h"
#include "base/floats/prefetch.h"

namespace embers {
namespace {

EMBERS_INLINE void copy(float* to, const float* from, size_t n) {
  constexpr size_t kLine = 64 / sizeof(float);  // a cache line: rows mostly consist of those
  for (; n >= kLine; n -= kLine, to += kLine, from += kLine) std::memcpy(to, from, kLine * sizeof(float));
  for (size_t k = 0; k < n; ++k) to[k] = from[k];
}

// Copies a row of a usual dim in one piece.
EMBERS_INLINE void copy_row(float* to, const float* from, size_t dim) {
  switch (dim) {
    case 4:
      return static_cast<void>(std::memcpy(to, from, 4 * sizeof(float)));
    case 8:
      return static_cast<void>(std::memcpy(to, from, 8 * sizeof(float)));
    case 16:
      return static_cast<void>(std::memcpy(to, from, 16 * sizeof(float)));
    case 32:
      return static_cast<void>(std::memcpy(to, from, 32 * sizeof(float)));
    case 64:
      return static_cast<void>(std::memcpy(to, from, 64 * sizeof(float)));
    default:
      return copy(to, from, dim);
  }
}

}  // namespace

EMBERS_INSTRUCTION_SETS void copy_floats(float* to, const float* from, size_t n) { copy(to, from, n); }

EMBERS_INSTRUCTION_SETS size_t copy_rows(std::span<const float* const> rows, size_t dim, float* out,
                                         uint8_t* found) {
  const float* const* const row = rows.data();
  const size_t n = rows.size();
  size_t count = 0;
  const size_t ahead = rows_ahead(dim);
  for (size_t i = 0; i < std::min(n, ahead); ++i) prefetch_row(row[i], row[i] == nullptr ? 0 : dim);
  for (size_t i = 0; i < n; ++i) {
    if (i + ahead < n && row[i + ahead] != nullptr) [[likely]]
      prefetch_row(row[i + ahead], dim);
    found[i] = row[i] != nullptr;
    count += found[i];
    if (row[i] != nullptr) [[likely]]
      copy_row(out + i * dim, row[i], dim);
  }
  return count;
}

}  // namespace embers
