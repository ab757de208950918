// Compiled with AVX2 and FMA: see row_kernels.h before including anything here.
#include <immintrin.h>

#include "model/lookup/kernels/row_kernels.h"

namespace {

alignas(32) constexpr int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

struct Simd {
  using Reg = __m256;
  using Tail = __m256i;
  static constexpr int kWidth = 8;
  static Reg zero() { return _mm256_setzero_ps(); }
  static Reg all(float x) { return _mm256_set1_ps(x); }
  static Reg load(const float* p) { return _mm256_loadu_ps(p); }
  static Reg load(const float* p, Tail tail) { return _mm256_maskload_ps(p, tail); }
  static void store(float* p, Reg r) { _mm256_storeu_ps(p, r); }
  static void store(float* p, Reg r, Tail tail) { _mm256_maskstore_ps(p, tail, r); }
  static void stream(float* p, Reg r) { _mm256_stream_ps(p, r); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static float fma(float a, float b, float c) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
  }
  static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static float sum(Reg r) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(r), _mm256_extractf128_ps(r, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  // Lanes are added as in sum(): those 4 apart, 2, and 1.
  static Reg sums(const Reg (&x)[8]) {
    Reg half[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      half[i] = _mm256_add_ps(_mm256_permute2f128_ps(x[i], x[i + 4], 0x20),
                              _mm256_permute2f128_ps(x[i], x[i + 4], 0x31));
    const Reg low = add_pairs(half[0], half[1]), high = add_pairs(half[2], half[3]);
    return _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xdd));
  }
  static Reg add_pairs(Reg a, Reg b) {
    const __m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                         _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
  }
  static Tail tail(int64_t floats) {
    const int64_t n = floats >= kWidth ? kWidth : floats;
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + kWidth - n));
  }
};

}  // namespace

#include "model/lookup/kernels/row_kernels.inc"

namespace embers {
const RowKernels kAvx2RowKernels{"avx2", combine, gradient, scatter, clip, highest, unclip};
}  // namespace embers
