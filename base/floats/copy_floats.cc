#include "base/floats/copy_floats.h"

#include <cstring>

#include "base/floats/instruction_sets.h"
#include "base/floats/prefetch.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

constexpr size_t kLong = 64;  // from this many floats on, a call of memcpy pays

constexpr size_t kPiece = 4;  // floats that are written around the caches at once

#if defined(__x86_64__)
bool can_go_around(size_t floats, const float* to) {
  return floats % kPiece == 0 && reinterpret_cast<uintptr_t>(to) % (kPiece * sizeof(float)) == 0;
}
EMBERS_INLINE void copy_around(float* to, const float* from, size_t n) {
  for (size_t k = 0; k < n; k += kPiece) _mm_stream_ps(to + k, _mm_loadu_ps(from + k));
}
// Whoever is told of what was written so must find it.
EMBERS_INLINE void finish_around() { _mm_sfence(); }
#else
bool can_go_around(size_t, const float*) { return false; }
EMBERS_INLINE void copy_around(float* to, const float* from, size_t n) { copy(to, from, n); }
EMBERS_INLINE void finish_around() {}
#endif

// Copies each row by copy_one(to, from).
template <class CopyOne>
EMBERS_INLINE size_t copy_all(std::span<const float* const> rows, size_t dim, float* out, uint8_t* found,
                              const CopyOne& copy_one) {
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
      copy_one(out + i * dim, row[i]);
  }
  return count;
}

EMBERS_INSTRUCTION_SETS size_t copy_rows_cached(std::span<const float* const> rows, size_t dim, float* out,
                                                uint8_t* found) {
  return copy_all(
      rows, dim, out,
      found, [dim](float* to, const float* from) __attribute__((always_inline)) { copy_row(to, from, dim); });
}

size_t copy_rows_around(std::span<const float* const> rows, size_t dim, float* out, uint8_t* found) {
  const size_t count =
      copy_all(rows, dim, out, found, [dim](float* to, const float* from) { copy_around(to, from, dim); });
  finish_around();
  return count;
}

}  // namespace

EMBERS_INSTRUCTION_SETS void copy_floats(float* to, const float* from, size_t n) {
  if (n < kLong)
    copy(to, from, n);
  else
    std::memcpy(to, from, n * sizeof(float));
}

void copy_many_floats(float* to, const float* from, size_t n, StoreChoice* choice) {
  const size_t pieces = can_go_around(0, to) ? n / kPiece * kPiece : 0;
  copy_by(pieces > 0 ? choice : nullptr, n * sizeof(float), [&](Stores stores) {
    const size_t around = stores == Stores::kAround ? pieces : 0;
    copy_around(to, from, around);
    std::memcpy(to + around, from + around, (n - around) * sizeof(float));
    finish_around();
  });
}

size_t copy_rows(std::span<const float* const> rows, size_t dim, float* out, uint8_t* found, Stores stores) {
  return stores == Stores::kAround && can_go_around(dim, out) ? copy_rows_around(rows, dim, out, found)
                                                              : copy_rows_cached(rows, dim, out, found);
}

size_t copy_rows(std::span<const float* const> rows, size_t dim, float* out, uint8_t* found,
                 StoreChoice* choice) {
  size_t count = 0;
  copy_by(can_go_around(dim, out) ? choice : nullptr, rows.size() * dim * sizeof(float),
          [&](Stores stores) { count = copy_rows(rows, dim, out, found, stores); });
  return count;
}

}  // namespace embers
