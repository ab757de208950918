#include "model/lookup/post_lookup.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace embers {
namespace {

constexpr int64_t kBagsPerRange = 256;
constexpr int64_t kBagsAhead = 512;
constexpr int64_t kCachedFloats = 192 << 10;  // 768 KiB of a second-level cache

// Of a bag of ids with weights, and sqrtn; or of ids without.
float divisor(Combiner combiner, const float* weight, int64_t begin, int64_t end) {
  auto sum = static_cast<float>(end - begin);
  if (weight != nullptr) {
    sum = 0;
    for (int64_t p = begin; p < end; ++p) sum += weight[p] * weight[p];
  }
  return combiner == Combiner::kMean ? sum : std::sqrt(sum);
}

// But of means with weights, which are found while rows are added up.
void find_scales(Combiner combiner, const LookupPass& pass, std::span<float> scale) {
  if (pass.width > 0 && pass.weight == nullptr)
    return std::fill(scale.begin(), scale.end(), scale_of(divisor(combiner, nullptr, 0, pass.width)));
  for (size_t b = 0; b < scale.size(); ++b) {
    const auto bag = static_cast<int64_t>(b);
    scale[b] = scale_of(divisor(combiner, pass.weight, pass.first_of(bag), pass.first_of(bag + 1)));
  }
}

// Whether nothing is divided: sums, and bags of one id of weight 1.
bool has_no_scale(Combiner combiner, const LookupPass& pass) {
  return combiner == Combiner::kSum || (pass.width == 1 && pass.weight == nullptr);
}

// Rows that are infinite or not a number do not show in a bag whose divisor is 0.
void clear_undivided(const LookupPass& pass, size_t dim, std::span<float> out) {
  for (int64_t b = 0; b < pass.bags(); ++b)
    if (pass.scale[b] == 0) std::fill_n(out.data() + static_cast<size_t>(b) * dim, dim, 0.0f);
}

ClipTask clip_task(const LocalTable& table, RowClips& clips) {
  clips.count = 0;
  return {table.origin(),       table.dim(),         clips.max_norm, clips.rows.data(),
          clips.clipped.data(), clips.factor.data(), &clips.count};
}

// Clips rows shortly before they are combined, so that they come from memory once: all of them where the
// cache holds them, else those of some bags ahead. Dedupe numbers rows as they appear first: so many bags
// bring new rows that lie next to one another.
void clip_and_combine(const CombineTask& task, const LookupPass& pass, const RowKernels& kernels) {
  const ClipTask clip = clip_task(*pass.table, *pass.clips);
  if (pass.table->rows() * pass.table->dim() <= kCachedFloats) {
    kernels.clip(clip, 0, pass.table->rows());
    return kernels.combine(task, 0, pass.bags());
  }
  int64_t found = 0;
  for (int64_t bag = 0; bag < pass.bags(); bag += kBagsAhead) {
    const int64_t end = std::min(bag + kBagsAhead, pass.bags());
    const int64_t first = pass.first_of(bag);
    const int64_t last = kernels.highest(task.place32 + first, pass.first_of(end) - first);
    if (last >= found) kernels.clip(clip, found, last + 1);
    found = std::max(found, last + 1);
    kernels.combine(task, bag, end);
  }
  kernels.clip(clip, found, pass.table->rows());
}

}  // namespace

void post_lookup(Combiner combiner, std::optional<float> max_norm, LookupPass& pass,
                 LookupWorkspace& workspace, std::span<float> out, const RowKernels& kernels) {
  const auto bags = static_cast<size_t>(pass.bags());
  const auto dim = static_cast<size_t>(pass.table->dim());
  if (out.size() != bags * dim)
    fail(ErrorCode::kInvalid, "the result has room for {} numbers, but {} bags of dim {} need {}", out.size(),
         bags, dim, bags * dim);
  pass.scale = nullptr;
  float* found_scale = nullptr;
  if (!has_no_scale(combiner, pass)) {
    const std::span<float> scale = pass.memory.scale.take(bags);
    pass.scale = scale.data();
    if (combiner == Combiner::kMean && pass.weight != nullptr)
      found_scale = scale.data();  // added up with the rows: the end of a bag cannot be guessed
    else
      find_scales(combiner, pass, scale);
  }
  pass.max_norm = pass.clips == nullptr ? max_norm.value_or(0) : 0;
  float* norm = pass.max_norm > 0 ? pass.memory.norm.take(pass.ids()).data() : nullptr;
  pass.norm = norm;
  const CombineTask task{pass.clips == nullptr ? pass.table->origin() : pass.clips->rows.data(),
                         pass.stride,
                         pass.row.empty() ? nullptr : pass.place.data(),
                         pass.row32.data(),
                         pass.offset.empty() ? nullptr : pass.offset.data(),
                         pass.width,
                         static_cast<int64_t>(pass.ids()),
                         pass.weight,
                         found_scale == nullptr ? pass.scale : nullptr,
                         pass.max_norm,
                         norm,
                         pass.table->dim(),
                         out.data(),
                         found_scale};
  if (pass.find_clips) {
    clip_and_combine(task, pass, kernels);
  } else {
    workspace.threads().split(pass.bags(), kBagsPerRange,
                              [&](int64_t begin, int64_t end) { kernels.combine(task, begin, end); });
  }
  if (pass.scale != nullptr && pass.weight != nullptr) clear_undivided(pass, dim, out);
}

RowClips clips_for(const LocalTable& table, float max_norm, RowClips::Memory& memory) {
  constexpr size_t kMore = 16;  // see ClipTask
  const auto rows = static_cast<size_t>(table.rows());
  return {max_norm, {}, memory.clipped.take(rows + kMore), memory.factor.take(rows + kMore)};
}

float RowClips::factor_of(int32_t row) const {
  const auto known = clipped.first(static_cast<size_t>(count));
  const auto at = std::lower_bound(known.begin(), known.end(), row);
  return at == known.end() || *at != row ? 1 : factor[static_cast<size_t>(at - known.begin())];
}

void find_clips(const LocalTable& table, RowClips& clips, const RowKernels& kernels) {
  kernels.clip(clip_task(table, clips), 0, table.rows());
}

}  // namespace embers
