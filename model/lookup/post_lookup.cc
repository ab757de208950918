#include "model/lookup/post_lookup.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/errors.h"

namespace embers {
namespace {

constexpr int64_t kBagsPerRange = 256;

float divisor(Combiner combiner, const float* weight, int64_t begin, int64_t end) {
  float sum = 0;
  if (weight == nullptr) {
    sum = static_cast<float>(end - begin);
  } else if (combiner == Combiner::kMean) {
    for (int64_t p = begin; p < end; ++p) sum += weight[p];
  } else {
    for (int64_t p = begin; p < end; ++p) sum += weight[p] * weight[p];
  }
  return combiner == Combiner::kMean ? sum : std::sqrt(sum);
}

void find_scales(Combiner combiner, const LookupPass& pass, std::span<float> scale) {
  for (size_t b = 0; b < scale.size(); ++b) {
    const float d = divisor(combiner, pass.weight, pass.offset[b], pass.offset[b + 1]);
    // An infinite one divides an infinite sum.
    scale[b] = d == 0 ? 0 : std::isinf(d) ? std::numeric_limits<float>::quiet_NaN() : 1 / d;
  }
}

// Rows that are infinite or not a number do not show in a bag whose divisor is 0.
void clear_undivided(const LookupPass& pass, size_t dim, std::span<float> out) {
  for (int64_t b = 0; b < pass.bags(); ++b)
    if (pass.scale[b] == 0) std::fill_n(out.data() + static_cast<size_t>(b) * dim, dim, 0.0f);
}

}  // namespace

void post_lookup(Combiner combiner, std::optional<float> max_norm, LookupPass& pass,
                 LookupWorkspace& workspace, std::span<float> out, const RowKernels& kernels) {
  const auto bags = static_cast<size_t>(pass.bags());
  const auto dim = static_cast<size_t>(pass.table->dim());
  if (out.size() != bags * dim)
    fail(ErrorCode::kInvalid, "the result has room for {} numbers, {} bags of dim {} need {}", out.size(),
         bags, dim, bags * dim);
  pass.scale = nullptr;
  if (combiner != Combiner::kSum) {
    const std::span<float> scale = pass.memory.scale.take(bags);
    find_scales(combiner, pass, scale);
    pass.scale = scale.data();
  }
  pass.max_norm = max_norm.value_or(0);
  float* norm = max_norm ? pass.memory.norm.take(pass.row.size()).data() : nullptr;
  pass.norm = norm;
  const CombineTask task{pass.table->origin(),
                         pass.stride,
                         pass.place.data(),
                         pass.offset.data(),
                         static_cast<int64_t>(pass.row.size()),
                         pass.weight,
                         pass.scale,
                         pass.max_norm,
                         norm,
                         pass.table->dim(),
                         out.data()};
  workspace.threads().split(pass.bags(), kBagsPerRange,
                            [&](int64_t begin, int64_t end) { kernels.combine(task, begin, end); });
  if (pass.scale != nullptr && pass.weight != nullptr) clear_undivided(pass, dim, out);
}

}  // namespace embers
