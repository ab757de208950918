#include "model/lookup/kernels/second_order_kernels.h"

#include <algorithm>
#include <cstring>

#include "model/lookup/kernels/lanes.h"

namespace embers {
namespace {

EMBERS_INLINE void forward(const FieldsShape& s, int64_t begin, int64_t end, FieldsIn x,
                           const NumericFields& numeric, float* fields, float* sums, float* second) {
  const int64_t width = (s.fields + numeric.count) * s.dim;
  for (int64_t e = begin; e < end; ++e) {
    Lanes twice{};
    for (int64_t d = 0; d < s.dim; d += kLanes) {
      const int64_t columns = std::min(kLanes, s.dim - d);
      float* to = fields + e * width + d;
      Lanes sum{}, squares{}, field;
      const auto take = [&](const Lanes& field) __attribute__((always_inline)) {
        store(to, field, columns);
        to += s.dim;
        sum += field;
        squares += field * field;
      };
      for (const FieldRows<const float>& rows : x) {
        load(field, rows.at(e) + d, columns);
        take(field);
      }
      const float* const values = numeric.values + e * numeric.count;
      for (int64_t k = 0; k < numeric.count; ++k) {
        load(field, numeric.factors + k * s.dim + d, columns);
        take(values[k] * field);
      }
      store(sums + e * s.dim + d, sum, columns);
      twice += sum * sum - squares;
    }
    float all = 0;
    for (int64_t i = 0; i < kLanes; ++i) all += twice[i];
    second[e] = 0.5f * all;
  }
}

EMBERS_INLINE void backward(const FieldsShape& s, int64_t begin, int64_t end,
                            const SecondOrderGradients& gradients, const float* fields, const float* sums,
                            const NumericFields& numeric, float* out, float* of_factors) {
  const int64_t count = s.fields + numeric.count, width = count * s.dim;
  for (int64_t e = begin; e < end; ++e) {
    const float factor = gradients.second == nullptr ? 0 : gradients.second[e * gradients.stride];
    for (int64_t d = 0; d < s.dim; d += kLanes) {
      const int64_t columns = std::min(kLanes, s.dim - d);
      Lanes sum, field, gradient;
      load(sum, sums + e * s.dim + d, columns);
      for (int64_t f = 0; f < count; ++f) {
        const int64_t at = e * width + f * s.dim + d;
        load(field, fields + at, columns);
        gradient = factor * (sum - field);
        if (gradients.second == nullptr) gradient = Lanes{};  // not zero times what may be infinite
        if (gradients.fields != nullptr) {
          load(field, gradients.fields + at, columns);
          gradient += field;
        }
        store(out + at, gradient, columns);
        if (f < s.fields) continue;
        const int64_t k = f - s.fields;
        float* const of_factor = of_factors + k * s.dim + d;
        load(field, of_factor, columns);
        store(of_factor, field + numeric.values[e * numeric.count + k] * gradient, columns);
      }
    }
  }
}

#if defined(EMBERS_FOR_AVX2)
EMBERS_FOR_AVX2 void forward_avx2(const FieldsShape& s, int64_t begin, int64_t end, FieldsIn x,
                                  const NumericFields& numeric, float* fields, float* sums, float* second) {
  forward(s, begin, end, x, numeric, fields, sums, second);
}
EMBERS_FOR_AVX2 void backward_avx2(const FieldsShape& s, int64_t begin, int64_t end,
                                   const SecondOrderGradients& gradients, const float* fields,
                                   const float* sums, const NumericFields& numeric, float* out,
                                   float* of_factors) {
  backward(s, begin, end, gradients, fields, sums, numeric, out, of_factors);
}
#endif

}  // namespace

void second_order(const FieldsShape& shape, int64_t begin, int64_t end, FieldsIn x,
                  const NumericFields& numeric, float* fields, float* sums, float* second) {
#if defined(EMBERS_FOR_AVX2)
  if (has_avx2()) return forward_avx2(shape, begin, end, x, numeric, fields, sums, second);
#endif
  forward(shape, begin, end, x, numeric, fields, sums, second);
}

void second_order_gradient(const FieldsShape& shape, int64_t begin, int64_t end,
                           const SecondOrderGradients& gradients, const float* fields, const float* sums,
                           const NumericFields& numeric, float* out, float* of_factors) {
#if defined(EMBERS_FOR_AVX2)
  if (has_avx2()) return backward_avx2(shape, begin, end, gradients, fields, sums, numeric, out, of_factors);
#endif
  backward(shape, begin, end, gradients, fields, sums, numeric, out, of_factors);
}

}  // namespace embers
