#include "cuda/forward.h"

#include "cuda/kernels.h"

namespace embers::cuda {

void launch_forward(const Kind& kind, const ForwardTask& task, void* stream) {
  const size_t shared = sizeof(int) * (static_cast<size_t>(task.model.column_count) + 1);
  with_kind(kind, [&]<class Number, int kAhead, int kChunks, int kWide>() {
    auto kernel = forward<false, 0, Number, kAhead, kChunks, kWide>;
    if (kind.plain)
      with_dim<kAhead, kChunks, kWide>(
          kind, [&]<int kDim>() { kernel = forward<true, kDim, Number, kAhead, kChunks, kWide>; });
    launch_on_all(kernel, kForwardThreads, shared, kind.warps, task, stream, "the forward pass");
  });
}

}  // namespace embers::cuda
