#pragma once

#include "cuda/short_runs.h"

// The backward pass, over sorted items: adds up the gradient of each row, carries it through the clipping,
// and applies the update rule to the row, or hands the gradient out.
namespace embers::cuda {

// Items that the lanes of a group hold, one each: those from `begin` on.
struct Window {
  int begin;
  uint32_t key;       // kNothing: of an id that does not count
  uint32_t gradient;  // where its bag's gradient begins, in units of kWide numbers
  float factor;       // what that is multiplied by
};

// Items of a table in windows. Those that come next are on their way: the items of the window after the next,
// and what those of the next need besides.
template <int kRule, int kWide, class View>
class Windows {
  static constexpr bool kPlain = kRule != kAnyRule;
  using AnyItem = typename View::AnyItem;

 public:
  EMBERS_DEVICE Windows(const Group& group, const View& view, int begin) : group_(group), view_(view) {
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
  EMBERS_DEVICE AnyItem item_at(int begin) const {
    const int at = begin + group_.lane;
    return at < view_.region.end ? view_.sorted[at] : view_.no_item();
  }
  EMBERS_DEVICE Window look_into(int begin, AnyItem item) const {
    const BackwardTask& task = view_.task;
    const uint32_t source = view_.source(item);
    const bool counts = source != kNothing;
    Window window{begin, counts ? view_.key(item) : kNothing, 0, 1};
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
  const View& view_;
  Window next_;
  AnyItem raw_;
};

// By all lanes of a warp: adds the first items of a window, from `place` on, that belong to `key`: at most
// kAhead of them, and none at `limit` or beyond. Returns how many. *ended: whether the run ends with them.
// Where it does and `update` says so, what the update needs of the row is on its way, too. Groups that are
// not `within` a run add nothing.
template <int kRule, int kAhead, int kChunks, int kWide, class View>
EMBERS_DEVICE int add_items(const Group& group, bool within, const View& view, const Window& window,
                            uint32_t key, int place, int limit, bool update, bool* ended,
                            Part<kChunks, kWide>& sum, RowAndSlots<kChunks, kWide>& row) {
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

// The place after the run of `key`, of which [place, end) holds at least the first item.
template <class View>
EMBERS_DEVICE int end_of_run(const View& view, uint32_t key, int place, int end) {
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
template <class View>
EMBERS_DEVICE int first_run(const View& view, int unit) {
  if (view.task.runs_before == nullptr) return 0;
  int run = view.task.runs_before[unit];
  for (int i = unit << view.task.shift; i < view.region.begin; ++i)  // those of the table before
    run += view.source(view.sorted[i]) != kNothing && (i == 0 || view.key_at(i) != view.key_at(i - 1));
  return run;
}

// By all lanes of a warp: the rows whose runs begin in the group's unit, and what it has of one that began
// before. Groups that do not `have` a unit take part.
template <int kRule, int kAhead, int kChunks, int kWide, class View>
EMBERS_DEVICE void backward_units(const Group& group, bool have, const View& view, int unit) {
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
    if (view.has(place - 1, key) && view.source(view.sorted[place]) != kNothing) {
      within = piece = view.has(from - size - 1, key) || view.has(to, key);
      begins = false;
      limit = end;
      if (!piece) place = end_of_run(view, key, place, end);
    }
  }
  if (!(within || place < end)) place = region.end;
  Windows<kRule, kWide, View> windows(group, view, place);
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

template <bool kShortRuns, int kChunks, int kWide>
constexpr int backward_blocks = kShortRuns            ? kShortRunBlocks
                                : kChunks* kWide <= 4 ? kBackwardBlocks
                                                      : 1;

// kRule: one of the update rules, for a model without weights, max_norm, default_id or partitions and with a
// column for each table; or kAnyRule. kDim: of all tables, or 0. Where both are known: kShortItems: of
// ShortItems; kShortRuns: for rows that mostly have one id (short_runs.h).
template <int kRule, int kDim, bool kShortItems, bool kShortRuns, class Number, int kAhead, int kChunks,
          int kWide>
EMBERS_KERNEL void EMBERS_THREADS(kBackwardThreads, (backward_blocks<kShortRuns, kChunks, kWide>))
    backward(BackwardTask task) {
  char* memory = shared_memory();
  if constexpr (kShortRuns) memory += BackwardRing<kRule, Number>::kMemory;
  int* const first = reinterpret_cast<int*>(memory);
  const int tables = task.model.table_count;
  share_out(tables, first, [&](int n) {
    const TableView<Number, kShortItems> view(task, n, kDim);
    return tasks_of(view.region.begin, view.region.end, task.shift, lanes_of<kDim, kWide>(view.table));
  });
  const int warps = threads() / kWarp * blocks();
  for (int t = threads() / kWarp * block_index() + thread_index() / kWarp; t < first[tables]; t += warps) {
    const int n = part_of(first, tables, t);
    const TableView<Number, kShortItems> view(task, n, kDim);
    const Group group = group_of(lanes_of<kDim, kWide>(view.table));
    const Units units = units_of(view.region.begin, view.region.end, task.shift);
    const int unit = units.first + (t - first[n]) * (kWarp / group.lanes) + group.number;
    if constexpr (kShortRuns) {
      static_assert(kChunks == 1 && kWide == 4);
      ShortRuns<kRule, TableView<Number, kShortItems>>(group, unit <= units.last, view, unit, shared_memory())
          .go();
    } else {
      backward_units<kRule, kAhead, kChunks, kWide>(group, unit <= units.last, view, unit);
    }
  }
}

}  // namespace embers::cuda
