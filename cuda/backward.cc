#include "cuda/backward.h"

#include "cuda/kernels.h"

namespace embers::cuda {
namespace {

// use.template operator()<kRule>() for a rule that has kernels of its own.
template <class Use>
void with_rule(int rule, Use use) {
  if (rule == EMBERS_CUDA_SGD) use.template operator()<EMBERS_CUDA_SGD>();
  if (rule == EMBERS_CUDA_ADAGRAD) use.template operator()<EMBERS_CUDA_ADAGRAD>();
  if (rule == EMBERS_CUDA_ADAM) use.template operator()<EMBERS_CUDA_ADAM>();
}

}  // namespace

// Kernels that know rule and dim take them.
bool backward_takes_short_items(const Kind& kind, const Rule& rule) {
  bool known_rule = false, known_dim = false;
  with_rule(rule.rule, [&]<int kRule>() { known_rule = true; });
  with_kind(kind, [&]<class Number, int kAhead, int kChunks, int kWide>() {
    with_dim<kAhead, kChunks, kWide>(kind, [&]<int kDim>() { known_dim = kDim != 0; });
  });
  return kind.plain && known_rule && known_dim;
}

void launch_backward(const Kind& kind, const BackwardTask& task, void* stream) {
  with_kind(kind, [&]<class Number, int kAhead, int kChunks, int kWide>() {
    size_t shared = sizeof(int) * (static_cast<size_t>(task.model.table_count) + 1);
    constexpr int kItems = kAhead < 4 ? kAhead : 4;  // at once: most runs have no more
    auto kernel = backward<kAnyRule, 0, false, false, Number, kItems, kChunks, kWide>;
    if constexpr (kWide == 4) {
      if (kind.plain)
        with_dim<kAhead, kChunks, kWide>(kind, [&]<int kDim>() {
          with_rule(task.rule.rule, [&]<int kRule>() {
            const auto use = [&]<bool kShortItems, bool kShortRuns>() {
              kernel = backward<kRule, kDim, kShortItems, kShortRuns, Number, kItems, kChunks, kWide>;
              if constexpr (kShortRuns) shared += BackwardRing<kRule, Number>::kMemory;
            };
            if constexpr (kDim == 0) {
              use.template operator()<false, false>();
            } else if (task.bag_bits != 0) {
              kind.short_runs ? use.template operator()<true, true>()
                              : use.template operator()<true, false>();
            } else {
              kind.short_runs ? use.template operator()<false, true>()
                              : use.template operator()<false, false>();
            }
          });
        });
    }
    launch_on_all(kernel, kBackwardThreads, shared, kind.warps, task, stream, "the backward pass");
  });
}

}  // namespace embers::cuda
