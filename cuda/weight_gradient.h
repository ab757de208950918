#pragma once

#include "cuda/forward.h"

// The gradient of the weights of ids: the inner product of each id's row, as it was combined, with the
// gradient of its bag; and through the divisor of mean and sqrtn. A group takes a bag. Ids that do not count
// get 0.
namespace embers::cuda {

struct WeightGradientTask {
  ForwardTask forward;  // without pieces; `out` is only read
  const float* out_gradient;
  int64_t gradient_stride;
  float* weight_gradient;
};

// By all lanes of a warp: of a bag of each group, or of none (an empty one).
template <int kChunks, int kWide, class Number>
EMBERS_DEVICE void weight_gradient_of_bag(const Group& group, const WeightGradientTask& task,
                                          const ColumnView<Number>& view, int bag, bool have) {
  const float* const weights = task.forward.batch.weights;
  Part<kChunks, kWide> gradient, row;
  float scale = 0;
  int begin = 0, end = 0;
  if (have) {
    scale = task.forward.state.scales[view.first_bag + bag];
    begin = static_cast<int>(view.offsets[bag]);
    end = static_cast<int>(view.offsets[bag + 1]);
  }
  read_row(group, view.dim,
           task.out_gradient + (have ? bag * task.gradient_stride + view.column.is.out_column : 0), gradient);
  float sum = 0;  // of the products, each times its weight
  for (int i = begin; anywhere(i < end); ++i) {
    const Item item = i < end ? view.items[i + view.items_before] : ~Item{0};
    const bool counts = scale != 0 && source_of(item) != kNothing;
    read_row(group, view.dim, counts ? view.row(key_of(item) - view.first_key) : view.any_row, row);
    float of_weight = product(group, row, gradient);
    of_weight *= clip_factor(group, view.max_norm, row);
    if (!counts) of_weight = 0;
    if (i < end) sum += weights[i] * of_weight;
    if (i < end && group.lane == 0) task.weight_gradient[i] = of_weight;
  }
  if (view.combiner == EMBERS_CUDA_SUM) return;
  sync_warp(kWholeWarp);
  for (int i = begin + group.lane; i < end; i += group.lanes) {
    if (scale == 0 || source_of(view.items[i + view.items_before]) == kNothing) continue;
    const float slope = view.combiner == EMBERS_CUDA_MEAN ? 1 : scale * weights[i];
    task.weight_gradient[i] = scale * task.weight_gradient[i] - scale * scale * sum * slope;
  }
}

template <class Number, int kAhead, int kChunks, int kWide>
EMBERS_KERNEL void EMBERS_THREADS(kForwardThreads, 1) weight_gradient(WeightGradientTask task) {
  const int bags = static_cast<int>(task.forward.batch.bags);
  const int warp = threads() / kWarp * block_index() + thread_index() / kWarp,
            warps = threads() / kWarp * blocks();
  for (int c = 0; c < task.forward.model.column_count; ++c) {
    const ColumnView<Number> view(task.forward, c);
    const Group group = group_of(view.table.lanes);
    const int groups = kWarp / group.lanes;
    for (int first = warp * groups; first < bags; first += warps * groups)
      weight_gradient_of_bag<kChunks, kWide>(group, task, view, first + group.number,
                                             first + group.number < bags);
  }
}

}  // namespace embers::cuda
