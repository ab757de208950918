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
            const auto use = [&]<bool kShortItems>() {
              kernel = backward<kRule, kDim, kShortItems, false, Number, kItems, kChunks, kWide>;
              if constexpr (kDim != 0) {
                // Asked about both, whichever is taken: a graph that captures the other one later finds it
                // loaded.
                blocks_at_once(kernel, kBackwardThreads, shared);
                const auto ahead = backward<kRule, kDim, kShortItems, true, Number, kItems, kChunks, kWide>;
                const size_t with_ring = shared + BackwardRing<kRule, Number>::kMemory;
                const int blocks = blocks_of_a_processor(ahead, kBackwardThreads, with_ring);
                if (kind.short_runs && blocks >= kShortRunBlocks) kernel = ahead, shared = with_ring;
              }
            };
            if constexpr (kDim != 0) {
              if (task.bag_bits != 0) return use.template operator()<true>();
            }
            use.template operator()<false>();
          });
        });
    }
    launch_on_all(kernel, kBackwardThreads, shared, kind.warps, task, stream, "the backward pass");
  });
}

}  // namespace embers::cuda
