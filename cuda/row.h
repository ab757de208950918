#pragma once

#include "cuda/lanes.h"

// One lane's part of a row in registers, and the arithmetic on it. A row of dim numbers is spread over the
// lanes of a group, kWide neighbouring numbers a lane, and over kChunks rounds of that.
namespace embers::cuda {

template <int kChunks, int kWide>
struct Part {
  float at[kChunks][kWide];
};

EMBERS_DEVICE void write(float* to, const float (&x)[1]) { *to = x[0]; }
EMBERS_DEVICE void write(Half* to, const float (&x)[1]) { *to = to_half(x[0]); }
EMBERS_DEVICE void write(float* to, const float (&x)[4]) {
  *reinterpret_cast<Float4*>(to) = Float4{x[0], x[1], x[2], x[3]};
}
EMBERS_DEVICE void write(Half* to, const float (&x)[4]) {
  *reinterpret_cast<Half4*>(to) = Half4{to_half(x[0]), to_half(x[1]), to_half(x[2]), to_half(x[3])};
}
EMBERS_DEVICE void read_fresh(const float* from, float (&to)[1]) { to[0] = read_shared_by_blocks(from); }
EMBERS_DEVICE void read_fresh(const float* from, float (&to)[4]) {
  const Float4 x = read_shared_by_blocks(reinterpret_cast<const Float4*>(from));
  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}

EMBERS_DEVICE void read_shared(const float* from, float (&to)[4]) {
  const Float4 x = *reinterpret_cast<const Float4*>(from);
  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}
EMBERS_DEVICE void read_shared(const Half* from, float (&to)[4]) {
  const Half4 x = *reinterpret_cast<const Half4*>(from);
  to[0] = to_float(x.x), to[1] = to_float(x.y), to[2] = to_float(x.z), to[3] = to_float(x.w);
}

// use(chunk, column) for each chunk in which this lane has numbers: those from `column` on.
template <int kChunks, int kWide, class Use>
EMBERS_DEVICE void each_chunk(const Group& group, int dim, Use use) {
  EMBERS_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * group.lanes + group.lane) * kWide;
    if (column < dim) use(c, column);
  }
}

template <int kChunks, int kWide>
EMBERS_DEVICE void clear(Part<kChunks, kWide>& part) {
  EMBERS_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    EMBERS_UNROLL
    for (int i = 0; i < kWide; ++i) part.at[c][i] = 0;
  }
}

// Numbers beyond dim become 0.
template <int kChunks, int kWide, class Number>
EMBERS_DEVICE void read_row(const Group& group, int dim, const Number* row, Part<kChunks, kWide>& part) {
  EMBERS_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * group.lanes + group.lane) * kWide;
    read(row + (column < dim ? column : 0), part.at[c]);
    EMBERS_UNROLL
    for (int i = 0; i < kWide; ++i)
      if (column >= dim) part.at[c][i] = 0;
  }
}

template <int kChunks, int kWide>
EMBERS_DEVICE void read_row_of_other_block(const Group& group, int dim, const float* row,
                                           Part<kChunks, kWide>& part) {
  clear(part);
  each_chunk<kChunks, kWide>(group, dim, [&](int c, int column) { read_fresh(row + column, part.at[c]); });
}

template <int kChunks, int kWide, class Number>
EMBERS_DEVICE void write_row(const Group& group, int dim, Number* row, const Part<kChunks, kWide>& part) {
  each_chunk<kChunks, kWide>(group, dim, [&](int c, int column) { write(row + column, part.at[c]); });
}

// sum += factor * part
template <int kChunks, int kWide>
EMBERS_DEVICE void add(Part<kChunks, kWide>& sum, float factor, const Part<kChunks, kWide>& part) {
  EMBERS_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    EMBERS_UNROLL
    for (int i = 0; i < kWide; ++i) sum.at[c][i] += factor * part.at[c][i];
  }
}

// Inner product of two rows, in each lane of the group.
template <int kChunks, int kWide>
EMBERS_DEVICE float product(const Group& group, const Part<kChunks, kWide>& a,
                            const Part<kChunks, kWide>& b) {
  float sum = 0;
  EMBERS_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    EMBERS_UNROLL
    for (int i = 0; i < kWide; ++i) sum += a.at[c][i] * b.at[c][i];
  }
  return sum_over(group, sum);
}

// For all lanes of a warp at once, as everything that sums over a group. max_norm is the same in all of them.

// What max_norm (0: none) multiplies a row by: tf.clip_by_norm.
template <int kChunks, int kWide>
EMBERS_DEVICE float clip_factor(const Group& group, float max_norm, const Part<kChunks, kWide>& row) {
  if (max_norm == 0) return 1;
  const float norm = exact_root(product(group, row, row));
  return norm < max_norm ? 1 : max_norm / norm;  // not a number stays that
}

// In groups that `have` one: carries the gradient of a clipped row to the row: that of row * max_norm / norm.
// A norm that is max_norm counts as clipped, because tf.maximum hands a tie to its first argument.
template <int kChunks, int kWide>
EMBERS_DEVICE void unclip(const Group& group, bool have, float max_norm, const Part<kChunks, kWide>& row,
                          Part<kChunks, kWide>& gradient) {
  if (max_norm == 0) return;
  const float squares = product(group, row, row), along = product(group, row, gradient),
              norm = exact_root(squares);
  if (!have || norm < max_norm) return;
  const float factor = max_norm / norm, part = along / squares;
  EMBERS_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    EMBERS_UNROLL
    for (int i = 0; i < kWide; ++i) gradient.at[c][i] = factor * (gradient.at[c][i] - part * row.at[c][i]);
  }
}

// Whether a gradient may change a row: it holds no infinity, no NaN and no number of 2^63 or more
// (docs/optimizers.md).
template <int kChunks, int kWide>
EMBERS_DEVICE bool is_usable(const Group& group, const Part<kChunks, kWide>& gradient) {
  bool usable = true;
  EMBERS_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    EMBERS_UNROLL
    for (int i = 0; i < kWide; ++i) usable = usable && magnitude(gradient.at[c][i]) < 9223372036854775808.0f;
  }
  return votes(group, !usable) == 0;
}

}  // namespace embers::cuda
