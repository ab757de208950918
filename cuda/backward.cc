#include "cuda/backward.h"

#include "cuda/kernels.h"

namespace embers::cuda {

void launch_backward(const Kind& kind, const BackwardTask& task, void* stream) {
  const size_t shared = sizeof(int) * (static_cast<size_t>(task.model.table_count) + 1);
  with_kind(kind, [&]<class Number, int kAhead, int kChunks, int kWide>() {
    constexpr int kItems = kAhead < 4 ? kAhead : 4;  // at once: most runs have no more
    auto kernel = backward<kAnyRule, 0, Number, kItems, kChunks, kWide>;
    if constexpr (kWide == 4) {
      if (kind.plain)
        with_dim<kAhead, kChunks, kWide>(kind, [&]<int kDim>() {
          if (task.rule.rule == EMBERS_CUDA_SGD)
            kernel = backward<EMBERS_CUDA_SGD, kDim, Number, kItems, kChunks, kWide>;
          if (task.rule.rule == EMBERS_CUDA_ADAGRAD)
            kernel = backward<EMBERS_CUDA_ADAGRAD, kDim, Number, kItems, kChunks, kWide>;
          if (task.rule.rule == EMBERS_CUDA_ADAM)
            kernel = backward<EMBERS_CUDA_ADAM, kDim, Number, kItems, kChunks, kWide>;
        });
    }
    launch_on_all(kernel, kBackwardThreads, shared, kind.warps, task, stream, "the backward pass");
  });
}

}  // namespace embers::cuda
