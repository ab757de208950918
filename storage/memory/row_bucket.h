#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "base/floats/instruction_sets.h"

namespace embers::storage {

struct RowCell {
  uint64_t hash;
  uint32_t row;
};

// A cache line of a RowIndex of `buckets` buckets: cells [0, count) are used. What does not fit is in nodes,
// see RowNode.
//
// A cell holds a whole hash and a row in ten bytes, because the position of the bucket tells the rest. All
// hashes that belong to one of `buckets` have a lower half from an interval of 2^32 / buckets, so from 2^16
// buckets on the lowest 16 bits tell which. Fewer buckets have so few rows that their numbers leave room for
// 13 bits more: the bucket is *small*.
struct alignas(64) RowBucket {
  static constexpr uint32_t kCells = 6;
  static constexpr uint64_t kFewest = 8, kLarge = 1 << 16;  // buckets
  static constexpr uint32_t kSmallRows = 1 << 19;           // more than a small index ever has
  static RowBucket kNoBucket;                               // empty, of an index without buckets

  uint32_t high[kCells];  // bits 32 to 63 of the hash
  uint32_t row[kCells];   // in a small bucket with bits 16 to 28 of the hash above it
  uint16_t low[kCells];   // bits 0 to 15
  uint32_t state;         // count in the lowest three bits, then whether it is small, then the first node

  static constexpr uint32_t kSmall = 8, kNodeShift = 4;
  // Which of `buckets` a hash belongs to: the lower half decides, since the first bits of the upper half
  // choose the shard, and so are the same within one shard.
  static uint64_t home(uint64_t hash, uint64_t buckets) {
    return (static_cast<uint32_t>(hash) * buckets) >> 32;
  }

  uint32_t count() const { return state & 7; }
  // Number of the first node, 0 for none.
  uint32_t node() const { return state >> kNodeShift; }
  void set_node(uint32_t node) { state = (state & (7 | kSmall)) | node << kNodeShift; }

  // Bit k: cell k is used and holds this hash, whose home this is.
  uint32_t matches(uint64_t hash) const;
#if defined(EMBERS_AVX512)
  EMBERS_AVX512 uint32_t matches_avx512(uint64_t hash) const;
#endif
  uint32_t row_at(uint32_t k) const { return row[k] & ~hash_bits(); }
  // The k-th cell, or all six, of which those from count() on mean nothing. `first`: the least lower half of
  // a hash whose home this is.
  RowCell cell(uint32_t k, uint32_t first) const { return cell(k, first, hash_bits()); }
  void cells(uint32_t first, RowCell* to) const {
    const uint32_t bits = hash_bits();
    for (uint32_t k = 0; k < kCells; ++k) to[k] = cell(k, first, bits);
  }
  // The least lower half of a hash that belongs to bucket `home` of `buckets`.
  static uint32_t first_of(uint64_t home, uint64_t buckets) {
    return static_cast<uint32_t>(((home << 32) + buckets - 1) / buckets);
  }

  void add(uint64_t hash, uint32_t new_row, bool small) {
    const uint32_t k = count();
    state = (state + 1) | (small ? kSmall : 0);
    high[k] = static_cast<uint32_t>(hash >> 32);
    row[k] = new_row | (shifted(hash) & hash_bits());
    low[k] = static_cast<uint16_t>(hash);
  }
  void remove(uint32_t k) {
    const uint32_t last = count() - 1;
    high[k] = high[last];
    row[k] = row[last];
    low[k] = low[last];
    --state;
  }

 private:
  RowCell cell(uint32_t k, uint32_t first, uint32_t bits) const;
  static uint32_t shifted(uint64_t hash) { return static_cast<uint32_t>(hash) << 3; }
  // The bits of row[] that belong to the hash.
  uint32_t hash_bits() const { return -(state / kSmall & 1) & ~(kSmallRows - 1); }
};
static_assert(sizeof(RowBucket) == 64);

// Half a cache line of cells, for a bucket that overflowed. Only the first node of a bucket may have room.
struct alignas(32) RowNode {
  static constexpr uint32_t kCells = 2;

  uint64_t hash[kCells];
  uint32_t row[kCells];
  uint32_t count;
  uint32_t next;  // number of the next node, 0 for none
};
static_assert(sizeof(RowNode) == 32);

inline uint32_t RowBucket::matches(uint64_t hash) const {
  const uint32_t used = (1u << count()) - 1;
#if defined(__SSE2__)
  const auto at = [this](size_t byte) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(this) + byte));
  };
  // Eight of each at once: what follows the sixth is cut off in the end.
  const __m128i h = _mm_set1_epi32(static_cast<int>(hash >> 32));
  const __m128i high8 = _mm_packs_epi32(_mm_cmpeq_epi32(at(offsetof(RowBucket, high)), h),
                                        _mm_cmpeq_epi32(at(offsetof(RowBucket, high) + 16), h));
  const __m128i low8 =
      _mm_cmpeq_epi16(at(offsetof(RowBucket, low)), _mm_set1_epi16(static_cast<short>(hash)));
  const __m128i bits = _mm_set1_epi32(static_cast<int>(hash_bits()));
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(shifted(hash) & hash_bits()));
  const auto row_hits = [&](size_t byte) { return _mm_cmpeq_epi32(_mm_and_si128(at(byte), bits), wanted); };
  const __m128i row8 =
      _mm_packs_epi32(row_hits(offsetof(RowBucket, row)), row_hits(offsetof(RowBucket, row) + 16));
  const __m128i all = _mm_and_si128(_mm_and_si128(high8, low8), row8);
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(all, all))) & used;
#else
  uint32_t hits = 0;
  for (uint32_t k = 0; k < kCells; ++k)
    hits |= static_cast<uint32_t>(high[k] == static_cast<uint32_t>(hash >> 32) &&
                                  low[k] == static_cast<uint16_t>(hash) &&
                                  ((row[k] ^ shifted(hash)) & hash_bits()) == 0)
            << k;
  return hits & used;
#endif
}

#if defined(EMBERS_AVX512)
EMBERS_AVX512 inline uint32_t RowBucket::matches_avx512(uint64_t hash) const {
  const __m512i line = _mm512_load_si512(this);
  const uint32_t high8 = _mm512_cmpeq_epi32_mask(line, _mm512_set1_epi32(static_cast<int>(hash >> 32)));
  const uint32_t low8 = _mm512_cmpeq_epi16_mask(line, _mm512_set1_epi16(static_cast<short>(hash))) >>
                        offsetof(RowBucket, low) / 2;
  const uint32_t hits = high8 & low8 & ((1u << count()) - 1);
  if ((state & kSmall) == 0) [[likely]]
    return hits;
  const __m512i bits = _mm512_set1_epi32(static_cast<int>(hash_bits()));
  const __m512i wanted = _mm512_set1_epi32(static_cast<int>(shifted(hash) & hash_bits()));
  return hits & _mm512_cmpeq_epi32_mask(_mm512_and_si512(line, bits), wanted) >> offsetof(RowBucket, row) / 4;
}
#endif

inline RowCell RowBucket::cell(uint32_t k, uint32_t first, uint32_t bits) const {
  // What is known of the lower half: its lowest 16 or 29 bits.
  const uint32_t known = low[k] | (row[k] & bits) >> 3;
  const uint32_t lower = first + ((known - first) & (0xffff | bits >> 3));
  return {uint64_t{high[k]} << 32 | lower, row[k] & ~bits};
}

}  // namespace embers::storage
