#include "storage/update_rules/adam_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "base/floats/instruction_sets.h"
#include "base/floats/prefetch.h"

namespace embers::storage {
namespace {

// m += (grad - m)(1 - beta_1);  v += (grad^2 - v)(1 - beta_2);  row -= rate * m / (sqrt(v) + epsilon)
// where rate includes the bias correction.
struct Factors {
  float one_minus_beta_1, one_minus_beta_2, epsilon, rate;
};
EMBERS_INLINE void moments(float& m, float& v, float grad, const Factors& f) {
  m += (grad - m) * f.one_minus_beta_1;
  v += (grad * grad - v) * f.one_minus_beta_2;
}
EMBERS_INLINE void move(float& row, float m, float v, const Factors& f) {
  row -= f.rate * m / (std::sqrt(v) + f.epsilon);
}

EMBERS_INSTRUCTION_SETS void adam_row(size_t n, float* __restrict row, float* __restrict m,
                                      float* __restrict v, const float* __restrict grad, Factors f) {
  for (size_t i = 0; i < n; ++i) {
    moments(m[i], v[i], grad[i], f);
    move(row[i], m[i], v[i], f);
  }
}

// The same with the greatest v so far in place of v.
EMBERS_INSTRUCTION_SETS void amsgrad_row(size_t n, float* __restrict row, float* __restrict m,
                                         float* __restrict v, float* __restrict v_hat,
                                         const float* __restrict grad, Factors f) {
  for (size_t i = 0; i < n; ++i) {
    moments(m[i], v[i], grad[i], f);
    v_hat[i] = std::max(v_hat[i], v[i]);
    move(row[i], m[i], v_hat[i], f);
  }
}

// Without their sign, floats are in the order of their bits, infinities and NaN last.
EMBERS_INLINE uint32_t magnitude(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffff; }
constexpr uint32_t kInfinity = 0x7f800000;

// What adam_row() does to the i-th numbers. Leaves in `before` what was there, and returns the greatest
// magnitude of what is there now.
EMBERS_INLINE uint32_t adam_number(size_t n, size_t i, float* __restrict row, float* __restrict m,
                                   float* __restrict v, const float* __restrict grad,
                                   float* __restrict before, const Factors& f) {
  float r = row[i], mi = m[i], vi = v[i];
  before[i] = r;
  before[n + i] = mi;
  before[2 * n + i] = vi;
  moments(mi, vi, grad[i], f);
  move(r, mi, vi, f);
  row[i] = r;
  m[i] = mi;
  v[i] = vi;
  return std::max(std::max(magnitude(r), magnitude(mi)), magnitude(vi));
}

// The lines of row, m and v that begin with the i-th numbers.
EMBERS_PREFETCHES void prefetch_lines(const float* row, size_t n, size_t i) {
  for (size_t part = 0; part < 3; ++part) prefetch_line(row + part * n + i);
}

// One cache line of row, m and v at a time. With each, the same lines of a later row are prefetched, so that
// requests to memory go out evenly while the processor divides.
EMBERS_INSTRUCTION_SETS size_t adam_rows(const RowsToUpdate& rows, size_t begin, float* before, Factors f) {
  const size_t n = rows.dim, count = rows.rows.size(), rows_before = rows_ahead(3 * n);
  float* const* const row = rows.rows.data();
  const float* const grads = rows.grads.data();
  for (size_t r = begin; r < std::min(count, begin + rows_before); ++r)
    for (size_t i = 0; i < n; i += kLineFloats) prefetch_lines(row[r], n, i);
  for (size_t r = begin; r < count; ++r) {
    const float* const ahead = row[std::min(r + rows_before, count - 1)];
    const float* const grad = grads + r * n;
    uint32_t greatest[kLineFloats] = {};
    const auto number = [&, at = row[r] ](size_t i) __attribute__((always_inline)) {
      return adam_number(n, i, at, at + n, at + 2 * n, grad, before, f);
    };
    size_t i = 0;
    for (; i + kLineFloats <= n; i += kLineFloats) {
      prefetch_lines(ahead, n, i);
#pragma GCC ivdep
      for (size_t k = 0; k < kLineFloats; ++k) greatest[k] = std::max(greatest[k], number(i + k));
    }
    if (i < n) prefetch_lines(ahead, n, i);
    for (; i < n; ++i) greatest[0] = std::max(greatest[0], number(i));
    uint32_t all = 0;
#pragma GCC unroll 1  // unrolled, the sixteen steps would become single instructions instead of vector ones
    for (size_t k = 0; k < kLineFloats; ++k) all = std::max(all, greatest[k]);
    if (all >= kInfinity) [[unlikely]]
      return r;
  }
  return count;
}

using AdamRows = size_t (*)(const RowsToUpdate& rows, size_t begin, float* before, Factors f);

#if defined(EMBERS_AVX512)
constexpr size_t kMostLines = 8;  // whose row, m and v fit into registers

// adam_rows() for rows of so many cache lines, the last of which may not be whole. All that a row becomes
// stays in registers until it is known to be finite, so nothing is kept of what it was. Infinities and NaN
// are found by multiplying by 0, which leaves NaN of them. Only the row and v are looked at: where m is not
// finite, the row is not either.
template <size_t kLines, bool kWhole>
EMBERS_AVX512 size_t adam_rows_avx512(const RowsToUpdate& rows, size_t begin, float* before, Factors f) {
  constexpr size_t kAhead = rows_ahead(3 * kLines * kLineFloats);
  const size_t n = kWhole ? kLines * kLineFloats : rows.dim, count = rows.rows.size();
  float* const* const row = rows.rows.data();
  const auto tail = static_cast<__mmask16>(0xffff >> (kWhole ? 0 : kLines * kLineFloats - n));
  const __m512 beta_1 = _mm512_set1_ps(f.one_minus_beta_1), beta_2 = _mm512_set1_ps(f.one_minus_beta_2);
  const __m512 epsilon = _mm512_set1_ps(f.epsilon), rate = _mm512_set1_ps(f.rate), zero = _mm512_setzero_ps();
  for (size_t r = begin; r < std::min(count, begin + kAhead); ++r)
    for (size_t i = 0; i < n; i += kLineFloats) prefetch_lines(row[r], n, i);
  for (size_t r = begin; r < count; ++r) {
    float* const at = row[r];
    const float* const grad = rows.grads.data() + r * n;
    const float* const ahead = row[std::min(r + kAhead, count - 1)];
    __m512 new_row[kLines], new_m[kLines], new_v[kLines], left = zero;
#pragma GCC unroll 8
    for (size_t l = 0; l < kLines; ++l) {
      const __mmask16 some = kWhole || l + 1 < kLines ? 0xffff : tail;
      const size_t i = l * kLineFloats;
      prefetch_lines(ahead, n, i);
      const __m512 g = _mm512_maskz_loadu_ps(some, grad + i);
      __m512 m = _mm512_maskz_loadu_ps(some, at + n + i), v = _mm512_maskz_loadu_ps(some, at + 2 * n + i);
      m = _mm512_add_ps(m, _mm512_mul_ps(_mm512_sub_ps(g, m), beta_1));
      v = _mm512_add_ps(v, _mm512_mul_ps(_mm512_sub_ps(_mm512_mul_ps(g, g), v), beta_2));
      const __m512 step =
          _mm512_div_ps(_mm512_mul_ps(rate, m), _mm512_add_ps(_mm512_maskz_sqrt_ps(0xffff, v), epsilon));
      new_row[l] = _mm512_sub_ps(_mm512_maskz_loadu_ps(some, at + i), step);
      new_m[l] = m;
      new_v[l] = v;
      left = _mm512_mask3_fmadd_ps(v, zero, _mm512_mask3_fmadd_ps(new_row[l], zero, left, some), some);
    }
    if (_mm512_cmp_ps_mask(left, left, _CMP_UNORD_Q) != 0) [[unlikely]] {
      const RowsToUpdate one{rows.rows.subspan(r, 1), n, rows.slot_floats, rows.grad(r)};
      if (adam_rows(one, 0, before, f) == 0) return r;
      continue;
    }
#pragma GCC unroll 8
    for (size_t l = 0; l < kLines; ++l) {
      const __mmask16 some = kWhole || l + 1 < kLines ? 0xffff : tail;
      float* const to = at + l * kLineFloats;
      _mm512_mask_storeu_ps(to, some, new_row[l]);
      _mm512_mask_storeu_ps(to + n, some, new_m[l]);
      _mm512_mask_storeu_ps(to + 2 * n, some, new_v[l]);
    }
  }
  return count;
}

// By number of lines, from one on.
template <bool kWhole, size_t... lines>
constexpr std::array<AdamRows, kMostLines> of_lines(std::index_sequence<lines...>) {
  return {adam_rows_avx512<lines + 1, kWhole>...};
}
constexpr auto kWholeLines = of_lines<true>(std::make_index_sequence<kMostLines>());
constexpr auto kOtherLines = of_lines<false>(std::make_index_sequence<kMostLines>());
#endif

AdamRows adam_rows_of([[maybe_unused]] size_t dim) {
#if defined(EMBERS_AVX512)
  if (has_avx512() && dim > 0 && dim <= kMostLines * kLineFloats)
    return (dim % kLineFloats == 0 ? kWholeLines : kOtherLines)[(dim - 1) / kLineFloats];
#endif
  return adam_rows;
}

Factors factors(const Params& p, const UpdateRule::Step& step, AdamEpsilon place) {
  const double beta_1 = p.at("beta_1"), beta_2 = p.at("beta_2"), epsilon = p.at("epsilon");
  const double root = std::sqrt(1 - power(beta_2, step.step));
  return {static_cast<float>(1 - beta_1), static_cast<float>(1 - beta_2),
          static_cast<float>(place == AdamEpsilon::kAfterCorrection ? epsilon * root : epsilon),
          static_cast<float>(step.learning_rate * root / (1 - power(beta_1, step.step)))};
}

}  // namespace

std::vector<UpdateRule::Slot> adam_slots(const Params& params) {
  std::vector<UpdateRule::Slot> slots{{"m", 0}, {"v", 0}};
  if (params.at("amsgrad") != 0) slots.push_back({"v_hat", 0});
  return slots;
}

UpdateKernel adam_kernel(const Params& params, const UpdateRule::Step& step, AdamEpsilon epsilon) {
  const Factors f = factors(params, step, epsilon);
  if (params.at("amsgrad") != 0)
    return row_kernel({3}, [f](size_t n, float* row, float* slots, const float* grad) {
      amsgrad_row(n, row, slots, slots + n, slots + 2 * n, grad, f);
    });
  return row_kernel({2}, [f](size_t n, float* row, float* slots, const float* grad) {
    adam_row(n, row, slots, slots + n, grad, f);
  });
}

GuardedKernel guarded_adam_kernel(const Params& params, const UpdateRule::Step& step, AdamEpsilon epsilon) {
  if (params.at("amsgrad") != 0) return nullptr;
  return [f = factors(params, step, epsilon)](const RowsToUpdate& rows, size_t begin, float* before) {
    if (rows.slot_floats != 2 * rows.dim) fail_shapes(rows.dim, rows.slot_floats, rows.dim);
    return adam_rows_of(rows.dim)(rows, begin, before, f);
  };
}

}  // namespace embers::storage
