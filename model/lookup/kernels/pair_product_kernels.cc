#include "model/lookup/kernels/pair_product_kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

// Both directions are products of small matrices: four rows of the result at a time, eight columns of it in a
// register each. Every sum is taken in one order, so results do not depend on how examples are spread. What
// runs on CPUs with AVX2 and FMA is compiled for them, from the same lines.
#if defined(__x86_64__)
#define EMBERS_FOR_AVX2 __attribute__((target("avx2,fma")))
#endif
#define EMBERS_INLINE inline __attribute__((always_inline))

namespace embers {
namespace {

constexpr int64_t kLanes = 8, kRows = 4;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

int64_t padded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Zeros of [rows, columns].
std::vector<float> zeros(int64_t rows, int64_t columns) {
  return std::vector<float>(static_cast<size_t>(rows * columns), 0.0f);
}

// Four rows at `left`, `stride` apart, times eight columns of [depth, width] at `right`.
EMBERS_INLINE void multiply(const float* left, int64_t stride, const float* right, int64_t width,
                            int64_t depth, Lanes (&sums)[kRows]) {
  for (int64_t r = 0; r < kRows; ++r) sums[r] = Lanes{};
  for (int64_t k = 0; k < depth; ++k) {
    const Lanes columns = *reinterpret_cast<const Lanes*>(right + k * width);
    for (int64_t r = 0; r < kRows; ++r) sums[r] += left[r * stride + k] * columns;
  }
}

EMBERS_INLINE void forward(const FieldsShape& s, int64_t begin, int64_t end, FieldsIn x, float* out) {
  const int64_t fields = padded(s.fields, kLanes), dim = s.dim;
  std::vector<float> rows_of_zeros = zeros(fields, dim), columns_of_zeros = zeros(dim, fields);
  float *const rows = rows_of_zeros.data(), *const transposed = columns_of_zeros.data();
  Lanes sums[kRows];
  out += begin * s.width() + s.before;
  for (int64_t e = begin; e < end; ++e, out += s.width()) {
    for (int64_t f = 0; f < s.fields; ++f) {
      const float* const row = x[f].first + e * x[f].stride;
      for (int64_t d = 0; d < s.dim; ++d) rows[f * dim + d] = transposed[d * fields + f] = row[d];
    }
    for (int64_t i = 0; i < s.fields; i += kRows)
      for (int64_t j = 0; j < std::min(i + kRows, s.fields) - 1; j += kLanes) {
        multiply(rows + i * dim, dim, transposed + j, fields, dim, sums);
        for (int64_t r = 0; r < kRows && i + r < s.fields; ++r)
          if (const int64_t row = i + r; row > j)
            std::memcpy(out + row * (row - 1) / 2 + j, &sums[r],
                        static_cast<size_t>(std::min(kLanes, row - j)) * sizeof(float));
      }
  }
}

EMBERS_INLINE void backward(const FieldsShape& s, int64_t begin, int64_t end, const float* gradient,
                            FieldsIn x, FieldsOut out) {
  const int64_t fields = padded(s.fields, kRows), dim = padded(s.dim, kLanes);
  std::vector<float> rows_of_zeros = zeros(fields, dim), weights_of_zeros = zeros(fields, fields);
  float *const rows = rows_of_zeros.data(), *const weights = weights_of_zeros.data();
  Lanes sums[kRows];
  gradient += begin * s.width();
  for (int64_t e = begin; e < end; ++e) {
    gradient += s.before;
    for (int64_t f = 0; f < s.fields; ++f)
      std::memcpy(rows + f * dim, x[f].first + e * x[f].stride, static_cast<size_t>(s.dim) * sizeof(float));
    for (int64_t i = 1; i < s.fields; ++i)
      for (int64_t j = 0; j < i; ++j, ++gradient)
        weights[i * fields + j] = weights[j * fields + i] = *gradient;
    for (int64_t i = 0; i < s.fields; i += kRows)
      for (int64_t d = 0; d < s.dim; d += kLanes) {
        multiply(weights + i * fields, fields, rows + d, dim, s.fields, sums);
        for (int64_t r = 0; r < kRows && i + r < s.fields; ++r)
          std::memcpy(out[i + r].first + e * out[i + r].stride + d, &sums[r],
                      static_cast<size_t>(std::min(kLanes, s.dim - d)) * sizeof(float));
      }
  }
}

#if defined(EMBERS_FOR_AVX2)
EMBERS_FOR_AVX2 void forward_avx2(const FieldsShape& s, int64_t begin, int64_t end, FieldsIn x, float* out) {
  forward(s, begin, end, x, out);
}
EMBERS_FOR_AVX2 void backward_avx2(const FieldsShape& s, int64_t begin, int64_t end, const float* gradient,
                                   FieldsIn x, FieldsOut out) {
  backward(s, begin, end, gradient, x, out);
}
bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
#endif

}  // namespace

void pair_products(const FieldsShape& shape, int64_t begin, int64_t end, FieldsIn x, float* out) {
#if defined(EMBERS_FOR_AVX2)
  if (has_avx2()) return forward_avx2(shape, begin, end, x, out);
#endif
  forward(shape, begin, end, x, out);
}

void pair_products_gradient(const FieldsShape& shape, int64_t begin, int64_t end, const float* gradient,
                            FieldsIn x, FieldsOut out) {
#if defined(EMBERS_FOR_AVX2)
  if (has_avx2()) return backward_avx2(shape, begin, end, gradient, x, out);
#endif
  backward(shape, begin, end, gradient, x, out);
}

}  // namespace embers
