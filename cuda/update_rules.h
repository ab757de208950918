#pragma once

#include "cuda/model.h"
#include "cuda/row.h"

// Update rules on a row in registers, with the formulas and names of storage/update_rules/.
namespace embers::cuda {

// An embers_cuda_update, with what is the same for all rows worked out.
struct Rule {
  int32_t rule;
  float weight_decay;
  float one_minus_beta_1, one_minus_beta_2;
  float epsilon;
};

// A kernel for a rule that is known when it is compiled, or for all of them.
constexpr int kAnyRule = -1;
template <int kRule>
EMBERS_DEVICE bool is_rule(const Rule& rule, int which) {
  return kRule == kAnyRule ? rule.rule == which : kRule == which;
}

// A table in registers.
template <class Number>
struct TableRows {
  Number* rows;
  float* slots[2];
  uint32_t row_stride, slot_stride;
  int dim;
  float max_norm;

  EMBERS_DEVICE TableRows(const Table& table, int all_dim)
      : rows(static_cast<Number*>(table.is.rows)),
        slots{table.is.slots[0], table.is.slots[1]},
        row_stride(table.row_stride),
        slot_stride(table.slot_stride),
        dim(all_dim != 0 ? all_dim : table.is.dim),
        max_norm(table.is.max_norm) {}
  EMBERS_DEVICE Number* row(uint32_t number) const { return rows + product_of(number, row_stride); }
  EMBERS_DEVICE uint64_t slot(uint32_t number) const { return product_of(number, slot_stride); }
};

// What of a row its update needs; asked for as soon as the row is known.
template <int kChunks, int kWide>
struct RowAndSlots {
  Part<kChunks, kWide> row, slot[2];
};

template <int kRule, int kChunks, int kWide, class Number>
EMBERS_DEVICE void read_row_and_slots(const Group& group, const TableRows<Number>& table, uint32_t row,
                                      const Rule& rule, RowAndSlots<kChunks, kWide>& to) {
  if (!is_rule<kRule>(rule, EMBERS_CUDA_GRADIENTS) || table.max_norm != 0)
    read_row(group, table.dim, table.row(row), to.row);
  if (is_rule<kRule>(rule, EMBERS_CUDA_ADAGRAD) || is_rule<kRule>(rule, EMBERS_CUDA_ADAM))
    read_row(group, table.dim, table.slots[0] + table.slot(row), to.slot[0]);
  if (is_rule<kRule>(rule, EMBERS_CUDA_ADAM))
    read_row(group, table.dim, table.slots[1] + table.slot(row), to.slot[1]);
}

// By all lanes of a warp: of groups that `have` a row. `rate`: of learning; Adam's with bias correction.
template <int kRule, int kChunks, int kWide, class Number>
EMBERS_DEVICE void update_row(const Group& group, bool have, const TableRows<Number>& table, uint32_t row,
                              const Rule& rule, float rate, const Part<kChunks, kWide>& gradient,
                              RowAndSlots<kChunks, kWide>& of) {
  float row_factor = rate;
  if (is_rule<kRule>(rule, EMBERS_CUDA_ROWWISE_ADAGRAD)) {
    // sum += mean(grad^2);  row -= rate * grad / (sqrt(sum) + epsilon)
    Part<kChunks, kWide> whole = gradient;
    add(whole, rule.weight_decay, of.row);
    float squares = product(group, whole, whole) / static_cast<float>(table.dim);
    float* const sum = table.slots[0] + table.slot(row);
    if (have) squares += *sum;
    sync_warp(kWholeWarp);
    if (have && group.lane == 0) *sum = squares;
    row_factor = rate / (root(squares) + rule.epsilon);
  }
  if (!have) return;
  EMBERS_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    EMBERS_UNROLL
    for (int i = 0; i < kWide; ++i) {
      float& x = of.row.at[c][i];
      float& first = of.slot[0].at[c][i];
      float& second = of.slot[1].at[c][i];
      const float g = gradient.at[c][i] + rule.weight_decay * x;
      if (is_rule<kRule>(rule, EMBERS_CUDA_ADAM)) {
        first += (g - first) * rule.one_minus_beta_1;
        second += (g * g - second) * rule.one_minus_beta_2;
        x -= quotient(rate * first, root(second) + rule.epsilon);
      } else if (is_rule<kRule>(rule, EMBERS_CUDA_ADAGRAD)) {
        first += g * g;
        x -= quotient(rate * g, root(first) + rule.epsilon);
      } else {
        x -= row_factor * g;
      }
    }
  }
  write_row(group, table.dim, table.row(row), of.row);
  if (is_rule<kRule>(rule, EMBERS_CUDA_ADAGRAD) || is_rule<kRule>(rule, EMBERS_CUDA_ADAM))
    write_row(group, table.dim, table.slots[0] + table.slot(row), of.slot[0]);
  if (is_rule<kRule>(rule, EMBERS_CUDA_ADAM))
    write_row(group, table.dim, table.slots[1] + table.slot(row), of.slot[1]);
}

}  // namespace embers::cuda
