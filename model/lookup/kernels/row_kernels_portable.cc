// For every machine: four floats at a time, which compilers turn into what the machine has.
#include "model/lookup/kernels/row_kernels.h"

namespace {

struct Simd {
  struct Reg {
    float x[4];
  };
  using Tail = int64_t;
  static constexpr int kWidth = 4;
  static Reg zero() { return {}; }
  static Reg all(float x) { return {{x, x, x, x}}; }
  static Reg load(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
  static Reg load(const float* p, Tail tail) {
    Reg r{};
    for (int64_t i = 0; i < tail; ++i) r.x[i] = p[i];
    return r;
  }
  static void store(float* p, Reg r) { store(p, r, kWidth); }
  static void store(float* p, Reg r, Tail tail) {
    for (int64_t i = 0; i < tail; ++i) p[i] = r.x[i];
  }
  static void stream(float* p, Reg r) { store(p, r); }
  static Reg fma(Reg a, Reg b, Reg c) {
    for (int i = 0; i < kWidth; ++i) c.x[i] += a.x[i] * b.x[i];
    return c;
  }
  static float fma(float a, float b, float c) { return a * b + c; }
  static Reg mul(Reg a, Reg b) {
    for (int i = 0; i < kWidth; ++i) a.x[i] *= b.x[i];
    return a;
  }
  static float sum(Reg r) { return (r.x[0] + r.x[2]) + (r.x[1] + r.x[3]); }
  static Reg sums(const Reg (&x)[4]) { return {{sum(x[0]), sum(x[1]), sum(x[2]), sum(x[3])}}; }
  static Tail tail(int64_t floats) { return floats >= kWidth ? kWidth : floats; }
};

}  // namespace

#include "model/lookup/kernels/row_kernels.inc"

namespace embers {
const RowKernels kPortableRowKernels{"portable", combine, gradient, scatter, clip, highest, unclip};
}  // namespace embers
