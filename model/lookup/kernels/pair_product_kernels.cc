#include "model/lookup/kernels/pair_product_kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "model/lookup/kernels/lanes.h"

// Both directions are products of small matrices: four rows of the result at a time, eight columns of it in a
// register. Every sum is taken in one order, so results do not depend on how examples are spread.
namespace embers {
namespace {

constexpr int64_t kRows = 4;

int64_t padded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Zeros of [rows, columns].
std::vector<float> zeros(int64_t rows, int64_t columns) {
  return std::vector<float>(static_cast<size_t>(rows * columns), 0.0f);
}

// Where the products of field `row` with those before it begin.
EMBERS_INLINE int64_t first_pair(int64_t row) { return row * (row - 1) / 2; }

// Eight rows of eight become columns.
EMBERS_INLINE void transpose(Lanes (&x)[kLanes]) {
  Lanes y[kLanes];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kLanes; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 8
  for (const int64_t i : {0, 1, 4, 5}) {
    const int64_t to = i / 4 * 4 + i % 4 * 2;
    x[to] = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    x[to + 1] = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kLanes / 2; ++i) {
    const Lanes low = x[i], high = x[i + 4];
    x[i] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11);
    x[i + 4] = __builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

EMBERS_INLINE void forward(const FieldsShape& s, int64_t begin, int64_t end, FieldsIn x, float* out) {
  const int64_t fields = padded(s.fields, kLanes);
  std::vector<float> columns = zeros(padded(s.dim, kLanes), fields), square = zeros(fields, fields);
  std::vector<const float*> rows(static_cast<size_t>(fields), columns.data());  // those beyond do not count
  float *const transposed = columns.data(), *const products = square.data();
  out += begin * s.width() + s.before;
  for (int64_t e = begin; e < end; ++e, out += s.width()) {
    for (size_t f = 0; f < x.size(); ++f) rows[f] = x[f].at(e);
    for (int64_t f = 0; f < fields; f += kLanes)
      for (int64_t d = 0; d < s.dim; d += kLanes) {
        Lanes block[kLanes];
        for (int64_t i = 0; i < kLanes; ++i)
          load(block[i], rows[static_cast<size_t>(f + i)] + d, std::min(kLanes, s.dim - d));
        transpose(block);
        for (int64_t i = 0; i < kLanes; ++i) store(transposed + (d + i) * fields + f, block[i], kLanes);
      }
    for (int64_t i = 0; i < s.fields; i += kRows) {
      const float* left[kRows];
      for (int64_t r = 0; r < kRows; ++r) left[r] = rows[static_cast<size_t>(i + r)];
      for (int64_t j = 0; j < i + kRows - 1; j += kLanes) {
        Lanes sums[kRows] = {};
        for (int64_t d = 0; d < s.dim; ++d) {
          const Lanes right = *reinterpret_cast<const LanesInMemory*>(transposed + d * fields + j);
          for (int64_t r = 0; r < kRows; ++r) sums[r] += left[r][d] * right;
        }
        for (int64_t r = 0; r < kRows; ++r) store(products + (i + r) * fields + j, sums[r], kLanes);
      }
    }
    // What is written beyond a row's end is overwritten by the next row.
    for (int64_t i = 1; i < s.fields; ++i)
      for (int64_t j = 0; j < i; j += kLanes) {
        const int64_t at = first_pair(i) + j;
        const Lanes row = *reinterpret_cast<const LanesInMemory*>(products + i * fields + j);
        store(out + at, row, std::min(kLanes, s.pairs() - at));
      }
  }
}

// Of four fields at once, kBlocks registers from `column` on. Loops are unrolled so that sums stay in
// registers.
template <int64_t kBlocks>
EMBERS_INLINE void gradient_of(int64_t first, int64_t fields, int64_t column, const float* gradient,
                               const float* const* x, float* const* out) {
  const int64_t count = std::min(kRows, fields - first);
  const float* before[kRows];  // products of each field with those before all four
  for (int64_t r = 0; r < kRows; ++r) before[r] = gradient + first_pair(first + std::min(r, count - 1));
  Lanes sums[kRows][kBlocks];
#pragma GCC unroll 4
  for (int64_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int64_t block = 0; block < kBlocks; ++block) sums[r][block] = Lanes{};
  const auto lanes = [&](int64_t field) __attribute__((always_inline)) {
    return reinterpret_cast<const LanesInMemory*>(x[field] + column);
  };
  for (int64_t k = 0; k < first; ++k) {
    const LanesInMemory* const row = lanes(k);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kRows; ++r) {
      const float weight = before[r][k];
#pragma GCC unroll 2
      for (int64_t block = 0; block < kBlocks; ++block) sums[r][block] += weight * row[block];
    }
  }
#pragma GCC unroll 4
  for (int64_t k = 0; k < kRows; ++k) {
    if (k >= count) break;
    const LanesInMemory* const row = lanes(first + k);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kRows; ++r) {
      if (r == k || r >= count) continue;
      const float weight = gradient[first_pair(first + std::max(r, k)) + first + std::min(r, k)];
#pragma GCC unroll 2
      for (int64_t block = 0; block < kBlocks; ++block) sums[r][block] += weight * row[block];
    }
  }
  for (int64_t k = first + kRows; k < fields; ++k) {
    const float* const after = gradient + first_pair(k) + first;
    const LanesInMemory* const row = lanes(k);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kRows; ++r) {
      const float weight = after[r];
#pragma GCC unroll 2
      for (int64_t block = 0; block < kBlocks; ++block) sums[r][block] += weight * row[block];
    }
  }
#pragma GCC unroll 4
  for (int64_t r = 0; r < kRows; ++r) {
    if (r >= count) break;
#pragma GCC unroll 2
    for (int64_t block = 0; block < kBlocks; ++block)
      store(out[first + r] + column + block * kLanes, sums[r][block], kLanes);
  }
}

EMBERS_INLINE void backward(const FieldsShape& s, int64_t begin, int64_t end, const float* gradient,
                            FieldsIn x, FieldsOut out) {
  // Rows are read many times. As they lie, they may all fall into the same few lines of the nearest cache.
  const int64_t dim = padded(s.dim, kLanes);
  const bool is_padded = dim != s.dim;  // then gradients go where there is room for whole registers, too
  const auto bytes = static_cast<size_t>(s.dim) * sizeof(float);
  std::vector<float> rows = zeros(s.fields, dim), gradients = zeros(is_padded ? s.fields : 0, dim);
  std::vector<const float*> from;
  std::vector<float*> to(x.size());
  for (int64_t f = 0; f < s.fields; ++f) from.push_back(rows.data() + f * dim);
  gradient += begin * s.width() + s.before;
  for (int64_t e = begin; e < end; ++e, gradient += s.width()) {
    for (size_t f = 0; f < x.size(); ++f) {
      float* const row = rows.data() + static_cast<int64_t>(f) * dim;
      const float* const at = x[f].at(e);
      Lanes lanes;
      for (int64_t d = 0; d < s.dim; d += kLanes) {
        load(lanes, at + d, std::min(kLanes, s.dim - d));
        store(row + d, lanes, kLanes);
      }
      to[f] = is_padded ? gradients.data() + static_cast<int64_t>(f) * dim : out[f].at(e);
    }
    for (int64_t i = 0; i < s.fields; i += kRows) {
      int64_t d = 0;
      for (; d + 2 * kLanes <= dim; d += 2 * kLanes)
        gradient_of<2>(i, s.fields, d, gradient, from.data(), to.data());
      if (d < dim) gradient_of<1>(i, s.fields, d, gradient, from.data(), to.data());
    }
    for (size_t f = 0; f < x.size() && is_padded; ++f) std::memcpy(out[f].at(e), to[f], bytes);
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
