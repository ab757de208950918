#pragma once

#include "cuda/pieces.h"
#include "cuda/update_rules.h"

// The backward pass, over sorted items: adds up the gradient of each row, carries it through the clipping,
// and applies the update rule to the row, or hands the gradient out.
namespace embers::cuda {

constexpr int kBackwardThreads = 128,
              kBackwardBlocks = 5;  // of a block, and blocks of a processor, for short rows

struct BackwardTask {
  Model model;
  embers_cuda_batch batch;
  const Item* sorted;
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

// What of a table all its rows need, in registers.
template <class Number>
struct TableView {
  const BackwardTask& task;
  const Table& table;
  TableRows<Number> rows;
  Region region;
  uint32_t first_key;
  int number;
  bool factors;               // gradients of bags are multiplied by something
  float rate;                 // of learning
  int first_bag, out_column;  // of its first column
  uint32_t gradient_stride;

  // `all_dim`: the dim of all tables, or 0 where that is not known.
  EMBERS_DEVICE TableView(const BackwardTask& t, int n, int all_dim)
      : task(t),
        table(t.model.tables[n]),
        rows(table, all_dim),
        region(region_of(t.batch, table)),
        first_key(table.first_key),
        number(n),
        factors(t.scaled || t.state.shares != nullptr),
        rate(*t.rate),
        first_bag(table.first_column * static_cast<int>(t.batch.bags)),
        out_column(table.columns == 0 ? 0 : t.model.columns[table.first_column].is.out_column),
        gradient_stride(static_cast<uint32_t>(t.gradient_stride)) {}

  EMBERS_DEVICE uint32_t key_at(int place) const { return key_of(task.sorted[place]); }
  EMBERS_DEVICE bool has(int place, uint32_t key) const {
    return place >= region.begin && place < region.end && key_at(place) == key;
  }
};

// Items that the lanes of a group hold, one each: those from `begin` on.
struct Window {
  int begin;
  uint32_t key;       // kNothing: of an id that does not count
  uint32_t gradient;  // where its bag's gradient begins, in units of kWide numbers
  float factor;       // what that is multiplied by
};

// Items of a table in windows. Those that come next are on their way: the items of the window after the next,
// and what those of the next need besides.
template <int kRule, int kWide, class Number>
class Windows {
  static constexpr bool kPlain = kRule != kAnyRule;

 public:
  EMBERS_DEVICE Windows(const Group& group, const TableView<Number>& view, int begin)
      : group_(group), view_(view) {
    raw_ = item_at(begin);
    next_ = look_into(begin, raw_);
    raw_ = item_at(begin + group.lanes);
  }
  EMBERS_DEVICE Window next() {
    const Window window = next_;
    next_ = look_into(window.begin + group_.lanes, raw_);
    raw_ = item_at(window.begin + 2 * group_.lanes);
    return window;
  }

 private:
  EMBERS_DEVICE Item item_at(int begin) const {
    const int at = begin + group_.lane;
    return at < view_.region.end ? view_.task.sorted[at] : ~Item{0};
  }
  EMBERS_DEVICE Window look_into(int begin, Item item) const {
    const BackwardTask& task = view_.task;
    const uint32_t source = source_of(item);
    const bool counts = source != kNothing;
    Window window{begin, counts ? key_of(item) : kNothing, 0, 1};
    auto bag = counts ? static_cast<int>(source) : view_.first_bag;  // any bag, if none
    if (!kPlain && counts && task.state.shares != nullptr) {
      const Share share = task.state.shares[source];
      bag = share.bag;
      window.factor = share.weight;
    }
    if (task.scaled) window.factor *= task.state.scales[bag];
    int first_bag = view_.first_bag, out_column = view_.out_column;
    if (!kPlain && view_.table.columns > 1) {
      const int column = bag / static_cast<int>(task.batch.bags);
      first_bag = column * static_cast<int>(task.batch.bags);
      out_column = task.model.columns[column].is.out_column;
    }
    // Below 2^32 numbers, as the caller has made sure.
    const uint32_t at =
        static_cast<uint32_t>(bag - first_bag) * view_.gradient_stride + static_cast<uint32_t>(out_column);
    window.gradient = at / kWide;
    return window;
  }

  const Group& group_;
  const TableView<Number>& view_;
  Window next_;
  Item raw_;
};

// By all lanes of a warp: adds the first items of a window, from `place` on, that belong to `key`: at most
// kAhead of them, and none at `limit` or beyond. Returns how many. *ended: whether the run ends with them.
// Where it does and `update` says so, what the update needs of the row is on its way, too. Groups that are
// not `within` a run add nothing.
template <int kRule, int kAhead, int kChunks, int kWide, class Number>
EMBERS_DEVICE int add_items(const Group& group, bool within, const TableView<Number>& view,
                            const Window& window, uint32_t key, int place, int limit, bool update,
                            bool* ended, Part<kChunks, kWide>& sum, RowAndSlots<kChunks, kWide>& row) {
  const int at = place - window.begin;
  const unsigned alike = votes(group, within && window.key == key && window.begin + group.lane < limit) >> at;
  const int run = alike == ~0u ? kWarp : lowest_one(~alike);  // how many of the window belong to it
  const int count = run < kAhead ? run : kAhead;
  *ended = within && run <= kAhead && (at + run < group.lanes || place + run >= limit);
  Part<kChunks, kWide> part[kAhead];
  float factor[kAhead];
  EMBERS_UNROLL
  for (int k = 0; k < kAhead; ++k) {
    const int lane = (at + k) & (group.lanes - 1);
    const uint32_t from = from_lane(group, window.gradient, lane);
    factor[k] = view.factors ? from_lane(group, window.factor, lane) : 1;
    const uint64_t at = k < count ? static_cast<uint64_t>(from) * kWide : 0;
    read_row(group, view.rows.dim, view.task.out_gradient + at, part[k]);
  }
  const bool wanted = update && *ended;
  if (anywhere(wanted))
    read_row_and_slots<kRule>(group, view.rows, wanted ? key - view.first_key : 0, view.task.rule, row);
  EMBERS_UNROLL
  for (int k = 0; k < kAhead; ++k)
    if (k < count && factor[k] != 0) add(sum, factor[k], part[k]);
  return count;
}

// By all lanes of a warp: rows whose gradients are complete, of groups that `have` one. `run`: its number
// among all rows, where gradients are wanted.
template <int kRule, int kChunks, int kWide, class Number>
EMBERS_DEVICE void finish_row(const Group& group, bool have, const TableView<Number>& view, uint32_t key,
                              int run, Part<kChunks, kWide>& gradient, RowAndSlots<kChunks, kWide>& of) {
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
template <class Number>
EMBERS_DEVICE Units units_of_run(const Group& group, bool ask, const TableView<Number>& view, uint32_t key,
                                 int unit, bool begins) {
  const int shift = view.task.shift, last_unit = (view.region.end - 1) >> shift;
  const int before =
      reach(group, ask && !begins, unit, [&](int d) { return view.has(((unit - d + 1) << shift) - 1, key); });
  const int after =
      reach(group, ask, last_unit - unit, [&](int d) { return view.has((unit + d) << shift, key); });
  return {unit - before, unit + after};
}

// The place after the run of `key`, of which [place, end) holds at least the first item.
template <class Number>
EMBERS_DEVICE int end_of_run(const TableView<Number>& view, uint32_t key, int place, int end) {
  while (place < end) {
    const int middle = (place + end) / 2;
    if (view.key_at(middle) == key) {
      place = middle + 1;
    } else {
      end = middle;
    }
  }
  return place;
}

// The number of the first row whose run begins in a unit, within its table.
template <class Number>
EMBERS_DEVICE int first_run(const TableView<Number>& view, int unit) {
  if (view.task.runs_before == nullptr) return 0;
  int run = view.task.runs_before[unit];
  for (int i = unit << view.task.shift; i < view.region.begin; ++i)  // those of the table before
    run += source_of(view.task.sorted[i]) != kNothing && (i == 0 || view.key_at(i) != view.key_at(i - 1));
  return run;
}

// By all lanes of a warp: the rows whose runs begin in the group's unit, and what it has of one that began
// before. Groups that do not `have` a unit take part.
template <int kRule, int kAhead, int kChunks, int kWide, class Number>
EMBERS_DEVICE void backward_units(const Group& group, bool have, const TableView<Number>& view, int unit) {
  const int shift = view.task.shift, size = 1 << shift;
  const Region region = view.region;
  const int from = unit << shift, to = from + size, end = !have ? 0 : to < region.end ? to : region.end;
  const uint32_t far_key =
      to + size < region.end ? view.key_at(to + size) : kNothing;  // of a run that is long
  int place = from < region.begin ? region.begin : from, run = have ? first_run(view, unit) : 0, limit = 0;
  bool within = false, piece = false, begins = true;
  uint32_t key = 0;
  Part<kChunks, kWide> sum;
  RowAndSlots<kChunks, kWide> row;
  clear(sum);
  clear(row.row);
  clear(row.slot[0]);
  clear(row.slot[1]);
  // A run that began before: a piece of it, if it is long; else whoever owns it follows it.
  if (have && place > region.begin) {
    key = view.key_at(place);
    if (view.has(place - 1, key) && source_of(view.task.sorted[place]) != kNothing) {
      within = piece = view.has(from - size - 1, key) || view.has(to, key);
      begins = false;
      limit = end;
      if (!piece) place = end_of_run(view, key, place, end);
    }
  }
  if (!(within || place < end)) place = region.end;
  Windows<kRule, kWide, Number> windows(group, view, place);
  Window window = windows.next();
  while (anywhere(within || place < end)) {
    if ((within || place < end) && place >= window.begin + group.lanes) window = windows.next();
    const uint32_t next_key = from_lane(group, window.key, (place - window.begin) & (group.lanes - 1));
    if (!within && place < end) {
      key = next_key;
      if (key == kNothing) {
        place = end;  // these are the last of the table
      } else {
        within = begins = true;
        piece = key == far_key;
        limit = piece ? end : region.end;
        clear(sum);
      }
    }
    bool ended = false;
    place +=
        add_items<kRule, kAhead>(group, within, view, window, key, place, limit, !piece, &ended, sum, row);
    if (!anywhere(ended)) continue;
    bool complete = ended && !piece;
    int number = run;
    if (anywhere(ended && piece)) {
      const bool comes = ended && piece;
      const Units units = units_of_run(group, comes, view, key, unit, begins);
      Extra none{0, 0};
      if (put_in(group, comes, view.rows.dim, view.task.pieces, unit, units.first, units.last, sum, none)) {
        complete = true;
        read_row_and_slots<kRule>(group, view.rows, key - view.first_key, view.task.rule, row);
        if (view.task.runs_before != nullptr) number = view.task.runs_before[units.first + 1] - 1;
      }
    }
    finish_row<kRule>(group, complete, view, key, number, sum, row);
    if (!ended) continue;
    run += begins;
    within = false;
  }
}

// kRule: one of the update rules, for a model without weights, max_norm, default_id or partitions and with a
// column for each table; or kAnyRule. kDim: of all tables, or 0.
template <int kRule, int kDim, class Number, int kAhead, int kChunks, int kWide>
EMBERS_KERNEL void EMBERS_THREADS(kBackwardThreads, kChunks* kWide <= 4 ? kBackwardBlocks : 1)
    backward(BackwardTask task) {
  int* const first = reinterpret_cast<int*>(shared_memory());
  const int tables = task.model.table_count;
  share_out(tables, first, [&](int n) {
    const TableView<Number> view(task, n, kDim);
    return tasks_of(view.region.begin, view.region.end, task.shift, lanes_of<kDim, kWide>(view.table));
  });
  const int warps = threads() / kWarp * blocks();
  for (int t = threads() / kWarp * block_index() + thread_index() / kWarp; t < first[tables]; t += warps) {
    const int n = part_of(first, tables, t);
    const TableView<Number> view(task, n, kDim);
    const Group group = group_of(lanes_of<kDim, kWide>(view.table));
    const Units units = units_of(view.region.begin, view.region.end, task.shift);
    const int unit = units.first + (t - first[n]) * (kWarp / group.lanes) + group.number;
    backward_units<kRule, kAhead, kChunks, kWide>(group, unit <= units.last, view, unit);
  }
}

}  // namespace embers::cuda
