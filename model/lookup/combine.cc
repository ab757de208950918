#include "model/lookup/combine.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace embers {
namespace {

struct Range {
  size_t begin, end;
};

Range range(const RaggedPositions& ids, size_t example) {
  return {static_cast<size_t>(ids.offsets[example]), static_cast<size_t>(ids.offsets[example + 1])};
}

const float* row(std::span<const float> rows, size_t dim, int64_t i) { return rows.data() + i * dim; }
float* row(std::span<float> rows, size_t dim, int64_t i) { return rows.data() + i * dim; }

template <class Dim>
void add_scaled(const float* from, float scale, Dim dim, float* to) {
  for (size_t k = 0; k < dim; ++k) to[k] += scale * from[k];
}

// Calls `body` with the dim: usual ones as constants, so that a row's loop is a few vector instructions.
template <class Body>
void with_dim(size_t dim, const Body& body) {
  switch (dim) {
    case 1:
      return body(std::integral_constant<size_t, 1>());
    case 8:
      return body(std::integral_constant<size_t, 8>());
    case 16:
      return body(std::integral_constant<size_t, 16>());
    case 32:
      return body(std::integral_constant<size_t, 32>());
    case 64:
      return body(std::integral_constant<size_t, 64>());
    default:
      return body(dim);
  }
}

// Whether an example's result is a row as it is.
bool is_one_row(const RaggedPositions& ids, Range r) {
  return r.end - r.begin == 1 && ids.weights.empty() && ids.position[r.begin] >= 0;
}

float weight(const RaggedPositions& ids, size_t i) { return ids.weights.empty() ? 1.0f : ids.weights[i]; }

// Factor of an example's weighted sum.
float scale_of(Combiner combiner, const RaggedPositions& ids, Range r) {
  if (combiner == Combiner::kSum) return 1;
  float sum = 0;
  for (size_t i = r.begin; i < r.end; ++i) {
    if (ids.position[i] < 0) continue;
    const float w = weight(ids, i);
    sum += combiner == Combiner::kMean ? w : w * w;
  }
  if (sum == 0) return 0;
  return combiner == Combiner::kMean ? 1 / sum : 1 / std::sqrt(sum);
}

void copy_rows(const RaggedPositions& ids, size_t dim, std::span<const float> bet, std::span<float> out) {
  for (size_t i = 0; i < ids.position.size(); ++i)
    if (ids.position[i] >= 0) std::copy_n(row(bet, dim, ids.position[i]), dim, row(out, dim, i));
}

void add_rows(const RaggedPositions& ids, size_t dim, std::span<const float> from, std::span<float> to) {
  for (size_t i = 0; i < ids.position.size(); ++i)
    if (ids.position[i] >= 0) add_scaled(row(from, dim, i), 1, dim, row(to, dim, ids.position[i]));
}

}  // namespace

int64_t combined_rows(Combiner combiner, const RaggedPositions& ids) {
  return combiner == Combiner::kNone ? static_cast<int64_t>(ids.position.size())
                                     : static_cast<int64_t>(ids.offsets.size()) - 1;
}

void combine(Combiner combiner, const RaggedPositions& ids, size_t dim, std::span<const float> bet,
             std::span<float> out) {
  if (combiner == Combiner::kNone) {
    std::fill(out.begin(), out.end(), 0.0f);
    return copy_rows(ids, dim, bet, out);
  }
  with_dim(dim, [&](auto d) {
    for (size_t e = 0; e + 1 < ids.offsets.size(); ++e) {
      const Range r = range(ids, e);
      float* const sum = row(out, d, e);
      if (is_one_row(ids, r)) {
        std::copy_n(row(bet, d, ids.position[r.begin]), static_cast<size_t>(d), sum);
        continue;
      }
      std::fill_n(sum, static_cast<size_t>(d), 0.0f);
      for (size_t i = r.begin; i < r.end; ++i)
        if (ids.position[i] >= 0) add_scaled(row(bet, d, ids.position[i]), weight(ids, i), d, sum);
      const float scale = scale_of(combiner, ids, r);
      for (size_t k = 0; k < d; ++k) sum[k] *= scale;
    }
  });
}

void add_combine_gradient(Combiner combiner, const RaggedPositions& ids, size_t dim,
                          std::span<const float> out_gradient, std::span<float> bet_gradient) {
  if (combiner == Combiner::kNone) return add_rows(ids, dim, out_gradient, bet_gradient);
  with_dim(dim, [&](auto d) {
    for (size_t e = 0; e + 1 < ids.offsets.size(); ++e) {
      const Range r = range(ids, e);
      const float scale = is_one_row(ids, r) ? 1.0f : scale_of(combiner, ids, r);
      for (size_t i = r.begin; i < r.end; ++i)
        if (ids.position[i] >= 0)
          add_scaled(row(out_gradient, d, e), scale * weight(ids, i), d,
                     row(bet_gradient, d, ids.position[i]));
    }
  });
}

}  // namespace embers
