// Compiled with AVX-512: see row_kernels.h before including anything here.
#include <immintrin.h>

#include "model/lookup/kernels/row_kernels.h"

namespace {

struct Simd {
  using Reg = __m512;
  using Tail = __mmask16;
  static constexpr int kWidth = 16;
  static Reg zero() { return _mm512_setzero_ps(); }
  static Reg all(float x) { return _mm512_set1_ps(x); }
  static Reg load(const float* p) { return _mm512_loadu_ps(p); }
  static Reg load(const float* p, Tail tail) { return _mm512_maskz_loadu_ps(tail, p); }
  static void store(float* p, Reg r) { _mm512_storeu_ps(p, r); }
  static void store(float* p, Reg r, Tail tail) { _mm512_mask_storeu_ps(p, tail, r); }
  static void stream(float* p, Reg r) { _mm512_stream_ps(p, r); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static float fma(float a, float b, float c) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
  }
  static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static float sum(Reg r) { return _mm512_reduce_add_ps(r); }
  // Lanes are added as in sum(): those 8 apart, 4, 2, and 1.
  static Reg sums(const Reg (&x)[16]) {
    Reg quarter[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      quarter[i] = add_quarters(add_halves(x[i], x[i + 4]), add_halves(x[i + 8], x[i + 12]));
    const Reg low = add_pairs(quarter[0], quarter[1]), high = add_pairs(quarter[2], quarter[3]);
    return _mm512_add_ps(_mm512_shuffle_ps(low, high, 0x88), _mm512_shuffle_ps(low, high, 0xdd));
  }
  static Reg add_halves(Reg a, Reg b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
  static Reg add_quarters(Reg a, Reg b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  }
  static Reg add_pairs(Reg a, Reg b) {
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
  }
  static int64_t append(const int32_t* clipped, const float* factor, int32_t first, int64_t n, int32_t* rows,
                        float* factors) {
    const __mmask16 chosen = _mm512_movepi32_mask(_mm512_loadu_si512(clipped));
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i row = _mm512_add_epi32(_mm512_set1_epi32(first), lanes);
    _mm512_storeu_si512(rows + n, _mm512_maskz_compress_epi32(chosen, row));
    _mm512_storeu_ps(factors + n, _mm512_maskz_compress_ps(chosen, _mm512_loadu_ps(factor)));
    return n + __builtin_popcount(chosen);
  }
  static Tail tail(int64_t floats) {
    return floats >= kWidth ? Tail{0xffff} : static_cast<Tail>((1u << floats) - 1);
  }
};

}  // namespace

#include "model/lookup/kernels/row_kernels.inc"

namespace embers {
namespace {

// Rows that fit a half register: half registers need no mask for usual dims.
constexpr int64_t kHalf = 8;

void combine_any(const CombineTask& t, int64_t begin, int64_t end) {
  t.dim <= kHalf ? kAvx2RowKernels.combine(t, begin, end) : combine(t, begin, end);
}
void gradient_any(const GradientTask& t, int64_t begin, int64_t end) {
  t.dim <= kHalf ? kAvx2RowKernels.gradient(t, begin, end) : gradient(t, begin, end);
}
void scatter_any(const ScatterTask& t, int64_t begin, int64_t end) {
  t.dim <= kHalf ? kAvx2RowKernels.scatter(t, begin, end) : scatter(t, begin, end);
}
void clip_any(const ClipTask& t, int64_t begin, int64_t end) {
  t.dim <= kHalf ? kAvx2RowKernels.clip(t, begin, end) : clip(t, begin, end);
}
void unclip_any(const UnclipTask& t, int64_t begin, int64_t end) {
  t.dim <= kHalf ? kAvx2RowKernels.unclip(t, begin, end) : unclip(t, begin, end);
}

}  // namespace

const RowKernels kAvx512RowKernels{"avx512", combine_any, gradient_any, scatter_any,
                                   clip_any, highest,     unclip_any};
}  // namespace embers
