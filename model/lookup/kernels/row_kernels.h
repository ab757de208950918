#pragma once

#include <cstddef>
#include <cstdint>

// The arithmetic on rows, compiled once for each instruction set. This header and row_kernels.inc are all
// that the kernels' files include: they hold no inline function that another file could end up calling on a
// machine that lacks the instructions.
namespace embers {

// Of a bag, from its divisor. An infinite one divides an infinite sum. In each file its own: see above.
namespace {
[[maybe_unused]] inline float scale_of(float divisor) {
  return divisor == 0 ? 0 : __builtin_isinf(divisor) ? __builtin_nanf("") : 1 / divisor;
}
}  // namespace

// Places of rows are int64 where tables are large, or int32: of each task that has both, one is given.

// out[b] = scale[b] * sum over the ids p of bag b of weight[p] * min(1, max_norm / |row p|) * row p.
// Ids are added in their order.
struct CombineTask {
  const float* origin;   // of the table
  int64_t stride;        // row of id p begins at origin + stride * place[p]
  const int64_t* place;  // of each id; null: place32
  const int32_t* place32;
  const int64_t* offset;  // bag b holds ids [offset[b], offset[b+1]); null: [b * width, (b+1) * width)
  int64_t width;
  int64_t ids;          // in all
  const float* weight;  // of each id; null: 1
  const float* scale;   // of each bag; null: 1
  float max_norm;       // 0: rows are not clipped, or were before
  float* norm;          // of each id, written if max_norm > 0: |row| where that is >= max_norm, else 0
  int64_t dim;
  float* out;  // bags x dim
  // Of each bag, written, unless it is null: the scale, 1 / the sum of its weights. Then `scale` is null.
  float* found_scale = nullptr;
};

// An id's part in the result: its bag, and the product of the bag's scale and its own weight. One struct, so
// that both are read at once.
struct alignas(8) IdShare {
  int32_t bag;
  float factor;
};

// out[u] = sum over the ids p of unique row u of factor[p] * gradient[bag[p]], carried back through the
// clipping of the row. Ids are added in their order.
struct GradientTask {
  const IdShare* shares;  // of the ids, by row
  const uint32_t* begin;  // unique row u owns shares[begin[u], begin[u+1])
  const float* gradient;  // bags x dim
  const float* origin;    // of the table; this and the next three are used only if rows were clipped
  int64_t stride;
  const int64_t* place;  // of each unique row: it begins at origin + stride * place[u]
  float max_norm;
  // Unique rows, ascending: those that were clipped, and the others. These may be left out where nothing was
  // clipped.
  const uint32_t *clipped, *kept;
  int64_t clipped_count, kept_count;
  int64_t dim;
  float* out;      // unique rows x dim
  bool streaming;  // write around the caches; needs dim % 16 == 0 and 64-byte alignment
};

// Where places are dense, nothing needs sorting: out[place[p]] += scale[b] * weight[p] * gradient[b], bag
// after bag, ids in their order. The sums are those of the task above, bit by bit, where out began with
// zeros.
struct ScatterTask {
  const int32_t* place;   // of each id
  const int64_t* offset;  // as in CombineTask
  int64_t width;
  int64_t ids;
  const float* weight;
  const float* scale;
  const float* gradient;    // of bag b: gradient + b * gradient_stride
  int64_t gradient_stride;  // 0: all bags have one
  int64_t dim;
  float* out;     // rows x dim
  bool prefetch;  // `out` does not fit the cache
  // Rows that are read next, as in UnclipTask, which may come from memory meanwhile.
  const float* rows = nullptr;
  const int32_t* clipped = nullptr;
  int64_t clipped_count = 0;
};

// Clips each row of a table.
struct ClipTask {
  const float* rows;  // rows x dim
  int64_t dim;
  float max_norm;
  float* out;        // rows x dim: min(1, max_norm / |row|) * row; may be `rows`
  int32_t* clipped;  // rows with |row| >= max_norm, ascending; room for 16 more than there are rows
  float* factor;     // of each of these: max_norm / |row|; as much room
  int64_t* count;    // of clipped rows, those found before included
};

// Carries gradients of clipped rows back to the rows that ClipTask was given, in place.
struct UnclipTask {
  const float* rows;
  bool clipped_rows;  // `rows` are what ClipTask left; else what it was given
  int64_t dim;
  float max_norm;
  const int32_t* clipped;
  const float* factor;
  float* gradient;  // rows x dim
};

struct RowKernels {
  const char* instructions;                                                // for people: "avx512"
  void (*combine)(const CombineTask& task, int64_t begin, int64_t end);    // bags [begin, end)
  void (*gradient)(const GradientTask& task, int64_t begin, int64_t end);  // unique rows [begin, end)
  void (*scatter)(const ScatterTask& task, int64_t begin, int64_t end);    // bags [begin, end)
  void (*clip)(const ClipTask& task, int64_t begin, int64_t end);          // rows [begin, end)
  int32_t (*highest)(const int32_t* places, int64_t count);                // of places; -1 of none
  void (*unclip)(const UnclipTask& task, int64_t begin, int64_t end);      // clipped rows [begin, end)
};

extern const RowKernels kPortableRowKernels;
#if defined(__x86_64__)
extern const RowKernels kAvx2RowKernels;    // needs avx2 and fma
extern const RowKernels kAvx512RowKernels;  // needs avx512f and avx512dq
#endif

// The fastest that this machine runs, or those of a name. kInvalid for a name that it does not run.
const RowKernels& choose_row_kernels(const char* wanted);

// Those that the environment names (EMBERS_ROW_KERNELS=avx512, avx2 or portable), so that machines of
// different age can compute the same bits, which kernels round differently; else the fastest. Chosen once.
const RowKernels& row_kernels();

}  // namespace embers
