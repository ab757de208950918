#include "model/combine.h"

#include <algorithm>
#include <cmath>

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

void add_scaled(const float* from, float scale, size_t dim, float* to) {
  for (size_t k = 0; k < dim; ++k) to[k] += scale * from[k];
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
  std::fill(out.begin(), out.end(), 0.0f);
  if (combiner == Combiner::kNone) return copy_rows(ids, dim, bet, out);
  for (size_t e = 0; e + 1 < ids.offsets.size(); ++e) {
    const Range r = range(ids, e);
    float* sum = row(out, dim, e);
    for (size_t i = r.begin; i < r.end; ++i)
      if (ids.position[i] >= 0) add_scaled(row(bet, dim, ids.position[i]), weight(ids, i), dim, sum);
    const float scale = scale_of(combiner, ids, r);
    std::transform(sum, sum + dim, sum, [scale](float x) { return scale * x; });
  }
}

void add_combine_gradient(Combiner combiner, const RaggedPositions& ids, size_t dim,
                          std::span<const float> out_gradient, std::span<float> bet_gradient) {
  if (combiner == Combiner::kNone) return add_rows(ids, dim, out_gradient, bet_gradient);
  for (size_t e = 0; e + 1 < ids.offsets.size(); ++e) {
    const Range r = range(ids, e);
    const float scale = scale_of(combiner, ids, r);
    for (size_t i = r.begin; i < r.end; ++i)
      if (ids.position[i] >= 0)
        add_scaled(row(out_gradient, dim, e), scale * weight(ids, i), dim,
                   row(bet_gradient, dim, ids.position[i]));
  }
}

}  // namespace embers
