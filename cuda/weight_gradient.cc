#include "cuda/weight_gradient.h"

#include "cuda/kernels.h"

namespace embers::cuda {

void launch_weight_gradient(const Kind& kind, const WeightGradientTask& task, void* stream) {
  with_kind(kind, [&]<class Number, int kAhead, int kChunks, int kWide>() {
    launch_on_all(weight_gradient<Number, kAhead, kChunks, kWide>, kForwardThreads, 0, kind.warps, task,
                  stream, "the weights' gradient");
  });
}

}  // namespace embers::cuda
