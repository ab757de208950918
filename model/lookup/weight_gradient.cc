#include "model/lookup/weight_gradient.h"

#include <numeric>

#include "base/errors.h"
#include "model/lookup/pre_lookup.h"

namespace embers {
namespace {

// Inner product of a row, as it was combined, with the gradient of its bag.
float product(const LookupPass& pass, int64_t p, const float* gradient) {
  const auto id = static_cast<size_t>(p);
  const float* row = pass.table->origin() + pass.place_of(id);
  const float sum = std::inner_product(row, row + pass.table->dim(), gradient, 0.0f);
  if (pass.clips != nullptr)
    return pass.clips->rows.data() == pass.table->origin() ? sum
                                                           : sum * pass.clips->factor_of(pass.row32[id]);
  const bool clipped = pass.norm != nullptr && pass.norm[p] > 0;
  return clipped ? sum * (pass.max_norm / pass.norm[p]) : sum;
}

}  // namespace

void weight_gradient(const LookupPass& pass, const SparseIds& ids, const LookupOptions& options,
                     std::span<const float> out_gradient, std::span<float> gradient) {
  const auto dim = static_cast<size_t>(pass.table->dim());
  const std::span<const float> weights = ids.weights.value();
  if (out_gradient.size() != static_cast<size_t>(pass.bags()) * dim || gradient.size() != weights.size())
    fail(ErrorCode::kInvalid, "gradients of {} and {} numbers for {} bags of dim {} and {} weights",
         out_gradient.size(), gradient.size(), pass.bags(), dim, weights.size());
  const auto id = [&](size_t i) {
    return std::visit([i](const auto& span) { return static_cast<int64_t>(span[i]); }, ids.ids);
  };
  for (size_t b = 0; b < static_cast<size_t>(bags(ids)); ++b) {
    const auto width = static_cast<size_t>(ids.width);
    const size_t begin = width > 0 ? b * width : static_cast<size_t>(ids.offsets[b]);
    const size_t end = width > 0 ? begin + width : static_cast<size_t>(ids.offsets[b + 1]);
    const float scale = pass.scale == nullptr ? 1 : pass.scale[b];
    int64_t kept = pass.first_of(static_cast<int64_t>(b));
    float sum = 0;  // of the products, each times its weight
    for (size_t i = begin; i < end; ++i) {
      const bool counts = scale != 0 && !pruned(options, id(i), weights[i]);
      gradient[i] = counts ? product(pass, kept++, out_gradient.data() + b * dim) : 0;
      sum += counts ? weights[i] * gradient[i] : 0;
    }
    if (options.combiner == Combiner::kSum) continue;
    const float through_divisor = scale * scale * sum;
    for (size_t i = begin; i < end; ++i) {
      if (scale == 0 || pruned(options, id(i), weights[i])) continue;
      const float slope = options.combiner == Combiner::kMean ? 1 : scale * weights[i];
      gradient[i] = scale * gradient[i] - through_divisor * slope;
    }
  }
}

}  // namespace embers
