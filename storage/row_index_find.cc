// RowIndex::find_at_home for each instruction set.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "storage/row_index.h"

namespace embers::storage {
namespace {

// The row at the first match; without one, kNone or for a bucket with nodes kElsewhere. Whatever cell
// the search shows then is read as well, rather than to branch on what cannot be predicted.
uint32_t pick(const RowBucket& bucket, uint32_t matches) {
  const uint32_t row = bucket.row[matches == 0 ? 0 : __builtin_ctz(matches)];
  const uint32_t none = RowIndex::kNone - (bucket.node() != 0 ? 1 : 0);
  return matches == 0 ? none : row;
}

void find_portable(const RowBucket* const* homes, const uint64_t* words, size_t n, uint32_t* rows) {
  for (size_t i = 0; i < n; ++i) rows[i] = pick(*homes[i], homes[i]->matches(words[i]));
}

#if defined(__x86_64__)
[[gnu::target("avx2,bmi,bmi2")]] void find_avx2(const RowBucket* const* homes, const uint64_t* words,
                                                size_t n, uint32_t* rows) {
  for (size_t i = 0; i < n; ++i) {
    const RowBucket& bucket = *homes[i];
    const __m256i four = _mm256_load_si256(reinterpret_cast<const __m256i*>(bucket.word));
    const __m256i hits = _mm256_cmpeq_epi64(four, _mm256_set1_epi64x(static_cast<long long>(words[i])));
    const auto mask = static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(hits)));
    const uint32_t fifth = static_cast<uint32_t>(bucket.word[4] == words[i]) << 4;
    rows[i] = pick(bucket, _bzhi_u32(mask | fifth, bucket.count()));
  }
}

[[gnu::target("avx512f,bmi,bmi2")]] void find_avx512(const RowBucket* const* homes, const uint64_t* words,
                                                     size_t n, uint32_t* rows) {
  for (size_t i = 0; i < n; ++i) {
    const RowBucket& bucket = *homes[i];
    const __m512i line = _mm512_load_si512(&bucket);
    const uint32_t mask =
        _mm512_mask_cmpeq_epi64_mask(0x1f, line, _mm512_set1_epi64(static_cast<long long>(words[i])));
    rows[i] = pick(bucket, _bzhi_u32(mask, bucket.count()));
  }
}
#endif

}  // namespace

const std::vector<RowIndex::FindAtHome>& RowIndex::ways_to_find() {
  static const std::vector<FindAtHome> ways = [] {
    std::vector<FindAtHome> ways{find_portable};
#if defined(__x86_64__)
    const bool bits = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (bits && __builtin_cpu_supports("avx2")) ways.push_back(find_avx2);
    if (bits && __builtin_cpu_supports("avx512f")) ways.push_back(find_avx512);
#endif
    return ways;
  }();
  return ways;
}

void RowIndex::find_at_home(const RowBucket* const* homes, const uint64_t* words, size_t n, uint32_t* rows) {
  static const FindAtHome find = ways_to_find().back();
  find(homes, words, n, rows);
}

}  // namespace embers::storage
