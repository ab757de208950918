#pragma once

#include <type_traits>

#include "cuda/pieces.h"
#include "cuda/update_rules.h"

// What backward passes have in common: the task, a table in registers, rows whose gradients are complete,
// long runs.
namespace embers::cuda {

constexpr int kBackwardThreads = 128,
              kBackwardBlocks = 5;  // of a block, and blocks of a processor, for short rows

struct BackwardTask {
  Model model;
  embers_cuda_batch batch;
  const void* sorted;  // Items, or ShortItems where there are bag_bits
  int bag_bits;
  const float* out_gradient;
  int64_t gradient_stride;
  State state;
  bool scaled;  // any bag's sum was multiplied
  Pieces pieces;
  Reports reports;
  Rule rule;
  const float* rate;  // of learning, where there is an update
  int shift;
  // Where the rule is EMBERS_CUDA_GRADIENTS.
  const int* runs_before;  // of each unit: rows whose runs begin in the units before
  int64_t* rows;
  float* values;
  int64_t value_stride;
};

// What of a table all its rows need, in registers. kShort: of ShortItems. Keys are then rows of the table.
template <class Number, bool kShort = false>
struct TableView {
  using AnyItem = std::conditional_t<kShort, ShortItem, Item>;
  using RowNumber = Number;
  const BackwardTask& task;
  const Table& table;
  const AnyItem* sorted;
  TableRows<Number> rows;
  Region region;
  uint32_t first_key;
  int number;
  bool factors;               // gradients of bags are multiplied by something
  float rate;                 // of learning
  int first_bag, out_column;  // of its first column
  uint32_t nothing;           // in a ShortItem: no row
  uint32_t gradient_stride;

  // `all_dim`: the dim of all tables, or 0 where that is not known.
  EMBERS_DEVICE TableView(const BackwardTask& t, int n, int all_dim)
      : task(t),
        table(t.model.tables[n]),
        sorted(static_cast<const AnyItem*>(t.sorted)),
        rows(table, all_dim),
        region(region_of(t.batch, table)),
        first_key(kShort ? 0 : table.first_key),
        number(n),
        factors(t.scaled || t.state.shares != nullptr),
        rate(*t.rate),
        first_bag(table.first_column * static_cast<int>(t.batch.bags)),
        out_column(table.columns == 0 ? 0 : t.model.columns[table.first_column].is.out_column),
        nothing(static_cast<uint32_t>(table.is.count)),
        gradient_stride(static_cast<uint32_t>(t.gradient_stride)) {}

  EMBERS_DEVICE uint32_t key_at(int place) const { return key(sorted[place]); }
  EMBERS_DEVICE uint32_t key(Item item) const { return key_of(item); }
  EMBERS_DEVICE uint32_t key(ShortItem item) const { return item >> task.bag_bits; }
  // Whose gradient counts, or kNothing.
  EMBERS_DEVICE uint32_t source(Item item) const { return source_of(item); }
  EMBERS_DEVICE uint32_t source(ShortItem item) const {
    const uint32_t bag = item & ((1u << task.bag_bits) - 1);
    return key(item) == nothing ? kNothing : static_cast<uint32_t>(first_bag) + bag;
  }
  // An id's that does not count.
  EMBERS_DEVICE AnyItem no_item() const {
    return kShort ? static_cast<AnyItem>(nothing << task.bag_bits) : ~AnyItem{0};
  }
  EMBERS_DEVICE bool has(int place, uint32_t key) const {
    return place >= region.begin && place < region.end && key_at(place) == key;
  }
};

// By all lanes of a warp: rows whose gradients are complete, of groups that `have` one. `run`: its number
// among all rows, where gradients are wanted.
template <int kRule, int kChunks, int kWide, class View>
EMBERS_DEVICE void finish_row(const Group& group, bool have, const View& view, uint32_t key, int run,
                              Part<kChunks, kWide>& gradient, RowAndSlots<kChunks, kWide>& of) {
  const BackwardTask& task = view.task;
  if constexpr (kRule == kAnyRule) unclip(group, have, view.rows.max_norm, of.row, gradient);
  if (kRule == kAnyRule && task.rule.rule == EMBERS_CUDA_GRADIENTS) {
    if (!have) return;
    write_row(group, view.rows.dim, task.values + run * task.value_stride, gradient);
    if (group.lane == 0) task.rows[run] = static_cast<int64_t>(key) - view.number;
    return;
  }
  const bool usable = is_usable(group, gradient);
  if (have && !usable && group.lane == 0) report_bad_gradient(task.reports);
  update_row<kRule>(group, have && usable, view.rows, key - view.first_key, task.rule, view.rate, gradient,
                    of);
}

// By all lanes of a warp: the largest distance up to `most` at which `holds`; it does at 0, and nowhere
// beyond a distance at which it does not. 0 for groups that do not `ask`. A group tries as many distances at
// once as it has lanes, doubling them first: most runs are short.
template <class Holds>
EMBERS_DEVICE int reach(const Group& group, bool ask, int most, Holds holds) {
  int low = 0, high = ask ? most + 1 : 1;  // it holds at `low`, and not at `high`
  int64_t step = 1;
  bool doubling = true;
  while (anywhere(high - low > 1)) {
    const auto tried = [&](int k) {
      const int64_t at = doubling ? low + (step << k) : low + 1 + int64_t{high - low - 1} * k / group.lanes;
      return static_cast<int>(at < high ? at : high);
    };
    const int at = tried(group.lane);
    const int count = ones(votes(group, high - low > 1 && at < high && holds(at)));
    if (high - low <= 1) continue;
    const int next_low = count == 0 ? low : tried(count - 1);
    if (count < group.lanes) high = tried(count);
    low = next_low;
    doubling = doubling && count == group.lanes && step < 1 << 20;
    step <<= group.lanes;
  }
  return low;
}

// By all lanes of a warp: the units of the long run of `key`, of which `unit` is one.
template <class View>
EMBERS_DEVICE Units units_of_run(const Group& group, bool ask, const View& view, uint32_t key, int unit,
                                 bool begins) {
  const int shift = view.task.shift, last_unit = (view.region.end - 1) >> shift;
  const int before =
      reach(group, ask && !begins, unit, [&](int d) { return view.has(((unit - d + 1) << shift) - 1, key); });
  const int after =
      reach(group, ask, last_unit - unit, [&](int d) { return view.has((unit + d) << shift, key); });
  return {unit - before, unit + after};
}

}  // namespace embers::cuda
