#include "model/lookup/kernels/unique_rows.h"

#include <bit>

#include "base/floats/instruction_sets.h"

#if defined(EMBERS_AVX512)
#include <immintrin.h>
#endif

namespace embers {
namespace {

// A share as one number: one store, of which there are many here.
typedef uint64_t ShareBits __attribute__((may_alias));
static_assert(sizeof(IdShare) == sizeof(ShareBits) && std::endian::native == std::endian::little);

ShareBits bits_of(uint64_t bag, float factor) {
  return bag | static_cast<uint64_t>(std::bit_cast<uint32_t>(factor)) << 32;
}

// From the low bits of an id's word.
struct OfIds {
  const ShareBits* shares;
  EMBERS_INLINE ShareBits operator()(uint64_t number) const { return shares[number]; }
};
struct OfBags {
  const float* scale;
  EMBERS_INLINE ShareBits operator()(uint64_t bag) const { return bits_of(bag, scale[bag]); }
};
struct OfSums {
  EMBERS_INLINE ShareBits operator()(uint64_t bag) const { return bits_of(bag, 1); }
};

// What is found up to some id; a copy, so that it stays in registers.
struct Found {
  explicit Found(const UniqueRows& to)
      : begin(to.begin),
        rows(to.rows),
        shares(reinterpret_cast<ShareBits*>(to.shares)),
        clipped(to.clipped),
        kept(to.kept) {}

  uint32_t* begin;
  int64_t* rows;
  ShareBits* shares;
  uint32_t *clipped, *kept;
  size_t count = 0, clipped_count = 0, kept_count = 0;
};

// Ids [first, sorted.size()). What is written for an id that is not the first of its row is overwritten by
// the next one that is.
template <bool kClips, class ShareOf>
EMBERS_INLINE void find_one_by_one(std::span<const uint64_t> sorted, size_t first, WordLayout layout,
                                   const ShareOf& share_of, Found& found) {
  const uint64_t low_bits = layout.low_bits();
  uint64_t before = first == 0 ? ~uint64_t{0} : sorted[first - 1] >> layout.shift();
  for (size_t i = first; i < sorted.size(); ++i) {
    const uint64_t row = sorted[i] >> layout.shift();
    found.shares[i] = share_of(sorted[i] & low_bits);
    found.begin[found.count] = static_cast<uint32_t>(i);
    found.rows[found.count] = static_cast<int64_t>(row);
    const bool is_new = row != before;
    if (kClips) {
      const auto is_clipped = static_cast<size_t>(sorted[i] >> layout.low & 1);
      found.clipped[found.clipped_count] = found.kept[found.kept_count] = static_cast<uint32_t>(found.count);
      found.clipped_count += is_new & is_clipped;
      found.kept_count += is_new & ~is_clipped;
    }
    found.count += is_new;
    before = row;
  }
}

#if defined(EMBERS_AVX512)
// Eight ids at a time, but for the first one. Returns how many.
template <bool kClips, class ShareOf>
[[gnu::always_inline]] EMBERS_AVX512 inline size_t find_eight(std::span<const uint64_t> sorted,
                                                              WordLayout layout, const ShareOf& share_of,
                                                              Found& found) {
  const uint64_t low_bits = layout.low_bits();
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(layout.shift()));
  const __m512i clipped_bit = _mm512_set1_epi64(static_cast<int64_t>(low_bits + 1));
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  size_t i = 1;
  for (; i + 8 <= sorted.size(); i += 8) {
    const __m512i words = _mm512_loadu_si512(sorted.data() + i);
    const __m512i row = _mm512_srl_epi64(words, shift);
    const __m512i before = _mm512_srl_epi64(_mm512_loadu_si512(sorted.data() + i - 1), shift);
    const __mmask8 is_new = _mm512_cmpneq_epi64_mask(row, before);
    const __m256i number = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(found.count)), lanes);
    const __m256i place = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(i)), lanes);
    _mm512_storeu_si512(found.rows + found.count, _mm512_maskz_compress_epi64(is_new, row));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(found.begin + found.count),
                        _mm256_maskz_compress_epi32(is_new, place));
    if (kClips) {
      const unsigned all = _mm512_test_epi64_mask(words, clipped_bit);
      // Of the new ones, which are numbered one after another.
      const unsigned clipped = _pext_u32(all, is_new), kept = _pext_u32(~all, is_new);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(found.clipped + found.clipped_count),
                          _mm256_maskz_compress_epi32(static_cast<__mmask8>(clipped), number));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(found.kept + found.kept_count),
                          _mm256_maskz_compress_epi32(static_cast<__mmask8>(kept), number));
      found.clipped_count += static_cast<size_t>(__builtin_popcount(clipped));
      found.kept_count += static_cast<size_t>(__builtin_popcount(kept));
    }
    found.count += static_cast<size_t>(__builtin_popcount(is_new));
#pragma GCC unroll 8
    for (size_t k = i; k < i + 8; ++k) found.shares[k] = share_of(sorted[k] & low_bits);
  }
  return i;
}

template <bool kClips, class ShareOf>
EMBERS_AVX512 void find_avx512(std::span<const uint64_t> sorted, WordLayout layout, const ShareOf& share_of,
                               Found& to) {
  Found found = to;
  find_one_by_one<kClips>(sorted.first(1), 0, layout, share_of, found);
  const size_t next = find_eight<kClips>(sorted, layout, share_of, found);
  find_one_by_one<kClips>(sorted, next, layout, share_of, found);
  to = found;
}
#endif

template <bool kClips, class ShareOf>
void find_by(std::span<const uint64_t> sorted, WordLayout layout, const ShareOf& share_of, UniqueRows& to) {
  Found found(to);
#if defined(EMBERS_AVX512)
  if (has_avx512() && !sorted.empty())
    find_avx512<kClips>(sorted, layout, share_of, found);
  else
#endif
    find_one_by_one<kClips>(sorted, 0, layout, share_of, found);
  found.begin[found.count] = static_cast<uint32_t>(sorted.size());
  to.count = found.count;
  to.clipped_count = found.clipped_count;
}

template <class ShareOf>
void find_by(std::span<const uint64_t> sorted, WordLayout layout, const ShareOf& share_of, UniqueRows& to) {
  to.clipped == nullptr ? find_by<false>(sorted, layout, share_of, to)
                        : find_by<true>(sorted, layout, share_of, to);
}

}  // namespace

void UniqueRows::find(std::span<const uint64_t> sorted, WordLayout layout, const IdShare* of_ids,
                      const float* scale) {
  if (of_ids != nullptr)
    find_by(sorted, layout, OfIds{reinterpret_cast<const ShareBits*>(of_ids)}, *this);
  else if (scale != nullptr)
    find_by(sorted, layout, OfBags{scale}, *this);
  else
    find_by(sorted, layout, OfSums{}, *this);
}

}  // namespace embers
