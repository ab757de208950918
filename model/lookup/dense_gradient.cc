#include <algorithm>
#include <functional>

#include "base/errors.h"
#include "model/lookup/post_lookup.h"

namespace embers {
namespace {

constexpr size_t kCachedFloats = size_t{1} << 17;  // half a MiB of sums needs no prefetching

void check(const LookupPass& pass, const OutGradient& gradient, std::span<const float> out) {
  const auto dim = pass.table->dim();
  const auto bags = pass.bags();
  const auto wanted = bags == 0 ? 0 : (bags - 1) * gradient.stride + dim;
  if (!pass.row.empty() || pass.norm != nullptr || static_cast<int64_t>(gradient.values.size()) < wanted ||
      static_cast<int64_t>(out.size()) != pass.table->rows() * dim)
    fail(ErrorCode::kInternal,
         "a gradient of {} numbers for {} bags of dim {}, and one of {} numbers for {} rows",
         gradient.values.size(), bags, dim, out.size(), pass.table->rows());
}

void add_pass(const LookupPass& pass, const OutGradient& gradient, std::span<float> out,
              const RowKernels& kernels) {
  ScatterTask task{pass.row32.data(),
                   pass.offset.empty() ? nullptr : pass.offset.data(),
                   pass.width,
                   static_cast<int64_t>(pass.row32.size()),
                   pass.weight,
                   pass.scale,
                   gradient.values.data(),
                   gradient.stride,
                   pass.table->dim(),
                   out.data(),
                   out.size() > kCachedFloats};
  if (pass.clips != nullptr) {
    task.rows = pass.table->origin();
    task.clipped = pass.clips->clipped.data();
    task.clipped_count = pass.clips->count;
  }
  kernels.scatter(task, 0, pass.bags());
}

// Passes that clip alike are summed before the sum is carried through the clipping.
void sum_alike(std::span<const LookupPass* const> passes, std::span<const OutGradient> gradients,
               const RowClips* clips, std::span<float> out, const RowKernels& kernels) {
  std::fill(out.begin(), out.end(), 0.0f);
  for (size_t i = 0; i < passes.size(); ++i)
    if (passes[i]->clips == clips) add_pass(*passes[i], gradients[i], out, kernels);
  const LocalTable& table = *passes.front()->table;
  if (clips == nullptr || table.rows() == 0) return;
  kernels.unclip({table.origin(), clips->rows.data() == table.origin(), table.dim(), clips->max_norm,
                  clips->clipped.data(), clips->factor.data(), out.data()},
                 0, clips->count);
}

}  // namespace

void dense_gradient(std::span<const LookupPass* const> passes, std::span<const OutGradient> gradients,
                    Scratch<float>& memory, std::span<float> out, const RowKernels& kernels) {
  for (size_t i = 0; i < passes.size(); ++i) check(*passes[i], gradients[i], out);
  if (passes.empty()) return std::fill(out.begin(), out.end(), 0.0f);
  sum_alike(passes, gradients, passes.front()->clips, out, kernels);
  for (size_t i = 1; i < passes.size(); ++i) {
    const auto before = passes.first(i);
    const RowClips* const clips = passes[i]->clips;
    if (std::any_of(before.begin(), before.end(), [&](const LookupPass* p) { return p->clips == clips; }))
      continue;
    const std::span<float> part = memory.take(out.size());
    sum_alike(passes, gradients, clips, part, kernels);
    std::transform(part.begin(), part.end(), out.begin(), out.begin(), std::plus<>());
  }
}

}  // namespace embers
