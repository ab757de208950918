// Compiled with AVX-512: see row_kernels.h before including anything here.
#include <immintrin.h>

#include "model/lookup/row_kernels.h"

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
  static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static float sum(Reg r) { return _mm512_reduce_add_ps(r); }
  static Tail tail(int64_t floats) {
    return floats >= kWidth ? Tail{0xffff} : static_cast<Tail>((1u << floats) - 1);
  }
};

}  // namespace

#include "model/lookup/row_kernels.inc"

namespace embers {
const RowKernels kAvx512RowKernels{"avx512", combine, gradient};
}  // namespace embers
