#pragma once

#include "cuda/grid.h"
#include "cuda/row.h"

// Sums of long runs, whose pieces are found by different groups. Each group leaves the sum of its piece; who
// comes last adds up what the others have left, in the order of the run, so that results do not depend on who
// that is. There are two levels, so that nobody adds up many: pieces of 32 units make one larger piece.
namespace embers::cuda {

constexpr int kTogetherShift = 5;

struct Pieces {
  float* sums;        // of each unit two: of the run that comes from the left, of the run that begins in it
  unsigned* arrived;  // likewise: how many pieces have come; zero between launches
  float* larger_sums;
  unsigned* larger_arrived;
  int floats;  // of a sum
};

EMBERS_BOTH int64_t piece_number(int unit, bool begins) { return int64_t{2} * unit + (begins ? 1 : 0); }

// More numbers that are summed besides the row: what a bag's divisor needs.
struct Extra {
  float divisor;
  float kept;
};

template <int kChunks, int kWide>
EMBERS_DEVICE void leave(const Group& group, int dim, float* sums, const Part<kChunks, kWide>& sum,
                         Extra extra) {
  write_row(group, dim, sums, sum);
  if (group.lane == 0) {
    sums[dim] = extra.divisor;
    sums[dim + 1] = extra.kept;
  }
}

// By all lanes of a warp: whether a group that `comes` is the last of `expected`. Then what the others left
// can be read.
EMBERS_DEVICE bool is_last(const Group& group, bool comes, unsigned* arrived, int expected) {
  fence();
  sync_warp(kWholeWarp);
  unsigned before = 0;
  if (comes && group.lane == 0) before = atomic_add(arrived, 1u);
  before = from_lane(group, before, 0);
  const bool last = comes && before + 1 == static_cast<unsigned>(expected);
  if (last && group.lane == 0) *arrived = 0;
  fence();
  return last;
}

// The sum of pieces first .. last, of which `first` is where the run begins if `begins`. Some are read at
// once.
template <int kChunks, int kWide>
EMBERS_DEVICE void sum_up(const Group& group, int dim, const float* sums, int floats, int first, int last,
                          bool begins, Part<kChunks, kWide>& sum, Extra& extra) {
  constexpr int kAtOnce = kChunks * kWide <= 4 ? 4 : 1;
  clear(sum);
  extra = {0, 0};
  for (int unit = first; unit <= last; unit += kAtOnce) {
    Part<kChunks, kWide> part[kAtOnce];
    Extra more[kAtOnce];
    EMBERS_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const int at = unit + k <= last ? unit + k : last;
      const float* piece = sums + piece_number(at, begins && at == first) * floats;
      read_row_of_other_block(group, dim, piece, part[k]);
      more[k] = {read_shared_by_blocks(piece + dim), read_shared_by_blocks(piece + dim + 1)};
    }
    EMBERS_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      if (unit + k > last) break;
      add(sum, 1, part[k]);
      extra.divisor += more[k].divisor;
      extra.kept += more[k].kept;
    }
  }
}

// By all lanes of a warp: a group that `comes` puts in the piece that unit `unit` has of a long run over the
// units first .. last. True for one group alone, once all pieces have come: `sum` and `extra` are then those
// of the run.
template <int kChunks, int kWide>
EMBERS_DEVICE bool put_in(const Group& group, bool comes, int dim, const Pieces& pieces, int unit, int first,
                          int last, Part<kChunks, kWide>& sum, Extra& extra) {
  if (comes) leave(group, dim, pieces.sums + piece_number(unit, unit == first) * pieces.floats, sum, extra);
  const int together = unit >> kTogetherShift, first_together = first >> kTogetherShift,
            last_together = last >> kTogetherShift;
  const bool begins = together == first_together;
  const int from = begins ? first : together << kTogetherShift;
  const int to = together == last_together ? last : ((together + 1) << kTogetherShift) - 1;
  const bool complete = is_last(group, comes, pieces.arrived + piece_number(from, begins), to - from + 1);
  if (complete) sum_up(group, dim, pieces.sums, pieces.floats, from, to, begins, sum, extra);
  const bool more = complete && first_together != last_together;
  if (!anywhere(more)) return complete;
  if (more)
    leave(group, dim, pieces.larger_sums + piece_number(together, begins) * pieces.floats, sum, extra);
  const bool all = is_last(group, more, pieces.larger_arrived + piece_number(first_together, true),
                           last_together - first_together + 1);
  if (all)
    sum_up(group, dim, pieces.larger_sums, pieces.floats, first_together, last_together, true, sum, extra);
  return more ? all : complete;
}

}  // namespace embers::cuda
