#pragma once

#include "cuda/backward.h"
#include "cuda/device.h"
#include "cuda/forward.h"
#include "cuda/sort.h"
#include "cuda/weight_gradient.h"

// Launches of the kernels, each compiled for the kinds of rows that there are.
namespace embers::cuda {

// Of the rows of a call.
struct Kind {
  int number_type;
  int wide;         // neighbouring numbers that a lane takes: 4, or 1 where rows do not allow it
  int chunks;       // rounds in which the widest row's lanes take numbers
  int64_t warps;    // that there is work for
  bool plain;       // no weights, max_norm, default_id or partitions; backward: and a column for each table
  bool short_rows;  // of at most four lanes: four of them at once are enough
  bool short_runs;  // there are hardly more ids than rows of tables, so that most rows have one
  int dim;          // of all rows, or 0 where tables differ
};

// The sizes for which kernels are compiled.
constexpr int kWideChunks[] = {1, 2, 4, 8}, kNarrowChunks[] = {1, 4, 32};

void launch_forward(const Kind& kind, const ForwardTask& task, void* stream);
// Whether launch_backward() has a kernel for ShortItems.
bool backward_takes_short_items(const Kind& kind, const Rule& rule);
void launch_backward(const Kind& kind, const BackwardTask& task, void* stream);
void launch_weight_gradient(const Kind& kind, const WeightGradientTask& task, void* stream);
int sort_blocks(int tables, bool short_items);
void launch_sort(const SortTask& task, void* stream);

// use.template operator()<Number, kAhead, kChunks, kWide>() for a kind. kAhead: rows that a group has on
// their way at once, as many as registers allow.
template <class Number, class Use>
void with_chunks(const Kind& kind, Use use) {
  if (kind.wide == 4) {
    switch (kind.chunks) {
      case 1:
        return kind.short_rows ? use.template operator()<Number, 4, 1, 4>()
                               : use.template operator()<Number, 8, 1, 4>();
      case 2:
        return use.template operator()<Number, 2, 2, 4>();
      case 4:
        return use.template operator()<Number, 1, 4, 4>();
      default:
        return use.template operator()<Number, 1, 8, 4>();
    }
  }
  switch (kind.chunks) {
    case 1:
      return use.template operator()<Number, 4, 1, 1>();
    case 4:
      return use.template operator()<Number, 2, 4, 1>();
    default:
      return use.template operator()<Number, 1, 32, 1>();
  }
}
template <class Use>
void with_kind(const Kind& kind, Use use) {
  kind.number_type == EMBERS_CUDA_FLOAT16 ? with_chunks<Half>(kind, use) : with_chunks<float>(kind, use);
}

// The dims of which plain models have kernels of their own, in which the compiler knows them; 0 is all
// others. use.template operator()<kDim>().
template <int kAhead, int kChunks, int kWide, class Use>
void with_dim(const Kind& kind, Use use) {
  if constexpr (kChunks == 1 && kWide == 4) {
    if constexpr (kAhead == 4) {
      if (kind.dim == 16) return use.template operator()<16>();
    } else {
      if (kind.dim == 32) return use.template operator()<32>();
      if (kind.dim == 64) return use.template operator()<64>();
      if (kind.dim == 128) return use.template operator()<128>();
    }
  }
  use.template operator()<0>();
}

// Blocks share out the work among themselves. There are some times as many as run at once, where there is
// work for them: those that end early make room for others.
template <class Task>
void launch_on_all(void (*kernel)(Task), int block_threads, size_t shared_bytes, int64_t warps,
                   const Task& task, void* stream, const char* what) {
  constexpr int kTimes = 4;
  const int64_t most = int64_t{kTimes} * blocks_at_once(kernel, block_threads, shared_bytes);
  const int64_t wanted = (warps * kWarp + block_threads - 1) / block_threads;
  const auto blocks = static_cast<int>(wanted < 1 ? 1 : wanted < most ? wanted : most);
  launch(kernel, {blocks, block_threads, shared_bytes}, false, stream, task, what);
}

}  // namespace embers::cuda
