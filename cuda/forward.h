#pragma once

#include "cuda/pieces.h"

// The forward pass: bags of ids of all columns to vectors, in one launch. Prunes ids, fills empty bags, finds
// rows, clips, weighs and combines them; and leaves an item for each id, for the backward pass.
//
// Its line has a place for each bag and one for each id: those of a bag are its own and then those of its
// ids. So empty bags are work, too.
namespace embers::cuda {

constexpr int kForwardThreads = 256;

struct ForwardTask {
  Model model;
  embers_cuda_batch batch;
  float* out;
  int64_t out_stride;
  State state;
  Pieces pieces;
  Reports reports;
  int shift;
};

// What of a column all its bags need, in registers: what a kernel writes could be anything else.
template <class Number>
struct ColumnView {
  const ForwardTask& task;
  const Table& table;
  const Column& column;
  const Number* rows;
  const Number* any_row;   // something that may be read as a row where there is none to read
  const int64_t* offsets;  // of its bags
  uint32_t stride;
  uint32_t first_key;
  uint32_t nothing;  // the key of no row
  int dim;
  int first_bag;     // over all columns
  int items_before;  // of bags of other tables' columns with a default_id: its ids' items come behind them
  int combiner;
  float max_norm;
  bool weighted, partitioned;
  uint64_t count;
  Item* items;  // null: none are wanted; those of plain models may be short (put_item)
  float* out;   // where its part of the result begins

  // `all_dim`: the dim of all tables, or 0 where that is not known.
  EMBERS_DEVICE ColumnView(const ForwardTask& t, int number, int all_dim = 0)
      : task(t),
        table(t.model.tables[t.model.columns[number].is.table]),
        column(t.model.columns[number]),
        rows(static_cast<const Number*>(table.is.rows)),
        any_row(table.is.count > 0 ? rows : reinterpret_cast<const Number*>(t.out)),
        offsets(t.batch.offsets + number * t.batch.bags),
        stride(table.row_stride),
        first_key(table.first_key),
        nothing(first_key + static_cast<uint32_t>(table.is.count)),
        dim(all_dim != 0 ? all_dim : table.is.dim),
        first_bag(number * static_cast<int>(t.batch.bags)),
        items_before(table.defaults_before * static_cast<int>(t.batch.bags)),
        combiner(column.is.combiner),
        max_norm(table.is.max_norm),
        weighted(t.batch.weights != nullptr),
        partitioned(table.is.partitions > 1),
        count(static_cast<uint64_t>(table.is.count)),
        items(static_cast<Item*>(t.state.items)),
        out(t.out + column.is.out_column) {}

  EMBERS_DEVICE int start(int bag) const { return static_cast<int>(offsets[bag]) + first_bag + bag; }
  // Of the first id of a bag whose place is `place` or beyond.
  EMBERS_DEVICE int id_at(int bag, int place) const { return place - (first_bag + bag) - 1; }
  EMBERS_DEVICE const Number* row(uint32_t number) const { return rows + product_of(number, stride); }
};

// The sum of a bag's rows so far.
template <int kChunks, int kWide>
struct Sum {
  Part<kChunks, kWide> rows;
  Extra extra;
};

// An id that is no row: left out quietly, if it may be.
EMBERS_DEVICE void refuse(const ForwardTask& task, const Column& column, int64_t id, int position, int bag) {
  if (!(column.is.prune_ids && id < 0)) report_bad_id(task.reports, position, bag);
}

// Up to kAhead ids of a bag, one in each lane, whose rows a group reads at once.
struct Ids {
  int bag;
  int from, to;  // none: to == from
  bool last;     // of the bag, or of the unit's piece of it
  bool piece;    // of a long bag
  int64_t id;    // this lane's; asked for as soon as it is known which
  float weight;
};

// What this lane's id means: its row, or kNothing. Leaves its item.
template <class Number>
EMBERS_DEVICE uint32_t look_into(const Group& group, const ColumnView<Number>& view, const Ids& ids) {
  const int mine = ids.from + group.lane;
  uint32_t row = kNothing;
  if (mine >= ids.to) return row;
  const bool light =
      view.weighted && view.column.is.prune_weights && view.combiner != EMBERS_CUDA_SUM && !(ids.weight > 0);
  if (!light) {
    if (view.partitioned) {
      const int64_t found = row_of(view.table.is, ids.id);
      if (found >= 0) row = static_cast<uint32_t>(found);
    } else if (static_cast<uint64_t>(ids.id) < view.count) {
      row = static_cast<uint32_t>(ids.id);
    }
    if (row == kNothing) refuse(view.task, view.column, ids.id, mine, view.first_bag + ids.bag);
  }
  if (view.items != nullptr) {
    const int item = mine + view.items_before, bag = view.first_bag + ids.bag;
    const auto source = static_cast<uint32_t>(view.weighted ? item : bag);
    write_once(view.items + item,
               row == kNothing ? item_of(view.nothing, kNothing) : item_of(view.first_key + row, source));
    if (view.weighted) view.task.state.shares[item] = {bag, ids.weight};
  }
  return row;
}

// What a bag's sum is multiplied by: one over the divisor of "mean", or over its root.
EMBERS_DEVICE float scale_of(int combiner, float divisor) {
  if (combiner == EMBERS_CUDA_SUM) return 1;
  if (combiner == EMBERS_CUDA_SQRTN) divisor = root(divisor);
  // tf.math.divide_no_nan; what is infinite divides an infinite sum.
  return divisor == 0 ? 0 : divisor - divisor != 0 ? divisor - divisor : quotient(1, divisor);
}

// By all lanes of a warp: bags whose ids are all in, of groups that `have` one. Default row, divisor, result.
template <int kChunks, int kWide, class Number>
EMBERS_DEVICE void finish_bag(const Group& group, bool have, const ColumnView<Number>& view, int bag,
                              Sum<kChunks, kWide>& sum) {
  const ForwardTask& task = view.task;
  if (view.column.is.has_default) {
    // Behind the items of the table's ids.
    const int64_t bags = task.batch.bags,
                  ids_end = task.batch.offsets[(view.table.first_column + view.table.columns) * bags];
    const int item = static_cast<int>(ids_end + view.column.defaults_before * bags) + bag;
    int64_t row = -1;
    if (have && sum.extra.kept == 0) {
      row = row_of(view.table.is, view.column.is.default_id);
      if (row < 0 && group.lane == 0) report_bad_id(task.reports, -1, view.first_bag + bag);
    }
    Part<kChunks, kWide> part;
    read_row(group, view.dim, row >= 0 ? view.row(static_cast<uint32_t>(row)) : view.any_row, part);
    const float factor = clip_factor(group, view.max_norm, part);
    if (row >= 0) {
      add(sum.rows, factor, part);
      sum.extra = {1, 1};
    }
    if (have && view.items != nullptr && group.lane == 0) {
      const auto source = static_cast<uint32_t>(view.weighted ? item : view.first_bag + bag);
      view.items[item] = row < 0 ? item_of(view.nothing, kNothing)
                                 : item_of(view.first_key + static_cast<uint32_t>(row), source);
      if (view.weighted) task.state.shares[item] = {view.first_bag + bag, 1};
    }
  }
  if (!have) return;
  const float scale = scale_of(view.combiner, sum.extra.divisor);
  if (view.items != nullptr && group.lane == 0) task.state.scales[view.first_bag + bag] = scale;
  EMBERS_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    EMBERS_UNROLL
    for (int i = 0; i < kWide; ++i) sum.rows.at[c][i] = scale == 0 ? 0 : scale * sum.rows.at[c][i];
  }
  write_row(group, view.dim, view.out + bag * task.out_stride, sum.rows);
}

// Goes through the ids of a unit: those of bags [bag, end_bag), which begin in it, and those that it has of a
// bag that began before.
template <class Number>
class UnitIds {
 public:
  EMBERS_DEVICE UnitIds(const ColumnView<Number>& view, int unit, int bag, int end_bag)
      : view_(view), to_((unit + 1) << view.task.shift), bag_(bag), end_bag_(end_bag) {
    next_ = static_cast<int>(view.offsets[bag]);
    const int from = unit << view.task.shift;
    if (bag > 0 && next_ + view.first_bag + bag > from &&
        is_long(view.start(bag - 1), next_ + view.first_bag + bag, view.task.shift)) {
      --bag_;
      id_ = view.id_at(bag_, from);
      stop_ = next_;
      begin_piece(next_);
    }
    later_ = first_id_of(bag_ + (within_ ? 2 : 1));
  }

  EMBERS_DEVICE bool more() const { return within_ || bag_ < end_bag_; }

  // The next ids, at most `most`.
  EMBERS_DEVICE Ids next(int lane, int most, bool weighted) {
    Ids ids{bag_, 0, 0, false, false, 0, 1};
    if (!more()) return ids;
    if (!within_) {
      id_ = next_;
      next_ = static_cast<int>(later_);
      later_ = first_id_of(bag_ + 2);
      stop_ = next_;
      piece_ = false;
      within_ = true;
      const int start = id_ + view_.first_bag + bag_;
      if (is_long(start, start + 1 + stop_ - id_, view_.task.shift)) begin_piece(next_);
    }
    ids.bag = bag_;
    ids.from = id_;
    ids.to = id_ + most < stop_ ? id_ + most : stop_;
    ids.last = ids.to == stop_;
    ids.piece = piece_;
    if (id_ + lane < ids.to) {
      ids.id = view_.task.batch.ids[id_ + lane];
      if (weighted) ids.weight = view_.task.batch.weights[id_ + lane];
    }
    id_ = ids.to;
    if (ids.last) {
      within_ = false;
      ++bag_;
    }
    return ids;
  }

 private:
  // Of a bag of the column, or behind its last one.
  EMBERS_DEVICE int64_t first_id_of(int bag) const {
    const int bags = static_cast<int>(view_.task.batch.bags);
    return view_.offsets[bag < bags ? bag : bags];
  }
  EMBERS_DEVICE void begin_piece(int end) {
    const int stop = view_.id_at(bag_, to_);
    stop_ = stop < end ? stop : end;
    piece_ = true;
    within_ = true;
  }

  const ColumnView<Number>& view_;
  int to_;  // the place at which the unit ends
  int bag_, end_bag_;
  int id_ = 0, stop_ = 0;  // of the present bag: the next id, and that behind the last
  int next_;               // the first id of the bag that comes next
  int64_t later_ = 0;      // and that of the one behind, asked for early
  bool within_ = false, piece_ = false;
};

// By all lanes of a warp: a unit of each group. While rows are on their way, the ids that come next are asked
// for.
template <int kAhead, int kChunks, int kWide, class Number>
EMBERS_DEVICE void forward_units(const Group& group, const ColumnView<Number>& view, int unit, int bag,
                                 int end_bag) {
  const int most = kAhead < group.lanes ? kAhead : group.lanes;
  const bool weighted = view.weighted, clipped = view.max_norm != 0;
  UnitIds<Number> unit_ids(view, unit, bag, end_bag);
  Sum<kChunks, kWide> sum;
  clear(sum.rows);
  sum.extra = {0, 0};
  Ids ids = unit_ids.next(group.lane, most, weighted);
  bool have = ids.to > ids.from || ids.last;
  while (anywhere(have)) {
    const uint32_t row = look_into(group, view, ids);
    Part<kChunks, kWide> part[kAhead];
    bool counts[kAhead];
    EMBERS_UNROLL
    for (int k = 0; k < kAhead; ++k) {
      const uint32_t of = from_lane(group, row, k & (group.lanes - 1));
      counts[k] = k < most && of != kNothing;
      read_row(group, view.dim, counts[k] ? view.row(of) : view.any_row, part[k]);
    }
    const Ids next = unit_ids.next(group.lane, most, weighted);
    const bool kept_here = row != kNothing;
    const auto kept = static_cast<float>(ones(votes(group, kept_here)));
    sum.extra.kept += kept;
    if (weighted) {
      const float share = view.combiner == EMBERS_CUDA_SQRTN ? ids.weight * ids.weight : ids.weight;
      sum.extra.divisor += sum_over(group, kept_here ? share : 0);
    } else {
      sum.extra.divisor += kept;
    }
    EMBERS_UNROLL
    for (int k = 0; k < kAhead; ++k) {
      float factor = 1;
      if (weighted) factor = from_lane(group, ids.weight, k & (group.lanes - 1));
      if (clipped) factor *= clip_factor(group, view.max_norm, part[k]);
      if (counts[k]) add(sum.rows, factor, part[k]);
    }
    const bool done = ids.last;
    if (anywhere(done)) {
      bool complete = done && !ids.piece;
      if (anywhere(done && ids.piece)) {
        const bool comes = done && ids.piece;
        Units units{0, 0};
        if (comes) units = units_of(view.start(ids.bag), view.start(ids.bag + 1), view.task.shift);
        if (put_in(group, comes, view.dim, view.task.pieces, unit, units.first, units.last, sum.rows,
                   sum.extra))
          complete = true;
      }
      finish_bag(group, complete, view, ids.bag, sum);
      if (done) {
        clear(sum.rows);
        sum.extra = {0, 0};
      }
    }
    ids = next;
    have = ids.to > ids.from || ids.last;
  }
}

// Leaves the item of an id of a plain model: its row in the table, or kNothing, and whose gradient counts.
template <class Number>
EMBERS_DEVICE void put_item(const ColumnView<Number>& view, int at, uint32_t row, uint32_t source) {
  const State& state = view.task.state;
  if (state.bag_bits != 0) {
    const uint32_t of = row == kNothing ? static_cast<uint32_t>(view.count) : row;
    write_once(static_cast<ShortItem*>(state.items) + at,
               of << state.bag_bits | (source - static_cast<uint32_t>(view.first_bag)));
  } else {
    write_once(static_cast<Item*>(state.items) + at,
               row == kNothing ? item_of(view.nothing, kNothing) : item_of(view.first_key + row, source));
  }
}

// The same for plain models: no weights, max_norm, default_id or partitions. Their loop has no branches where
// it can do without.
template <int kAhead, int kChunks, int kWide, class Number>
EMBERS_DEVICE void plain_units(const Group& group, const ColumnView<Number>& view, int unit, int bag,
                               int end_bag) {
  const int shift = view.task.shift, bags = static_cast<int>(view.task.batch.bags);
  const int most = kAhead < group.lanes ? kAhead : group.lanes;
  const auto first_id_of = [&](int b) { return static_cast<int>(view.offsets[b < bags ? b : bags]); };
  // Less the number of a bag: the id at which the unit ends, and the last at which one that begins in the
  // unit may end if it is not long.
  const int unit_end = view.id_at(0, (unit + 1) << shift), short_end = unit_end + (1 << shift);
  // Of the present bag: the next id, and that behind the last; and where the bag behind it ends.
  int at = first_id_of(bag), stop = first_id_of(bag + 1), later = 0;
  bool piece = false;
  const int from = unit << shift, place = at + view.first_bag + bag;
  if (bag > 0 && place > from && is_long(view.start(bag - 1), place, shift)) {
    --bag;
    stop = at < unit_end - bag ? at : unit_end - bag;
    at = view.id_at(bag, from);
    piece = true;
  } else if (stop > short_end - bag) {
    stop = unit_end - bag;
    piece = true;
  }
  if (bag >= end_bag) stop = at;
  later = first_id_of(bag + 2);
  int64_t id = 0;
  const auto ask = [&] {
    if (group.lane < most && at + group.lane < stop) id = view.task.batch.ids[at + group.lane];
  };
  ask();
  Part<kChunks, kWide> sum;
  clear(sum);
  int kept = 0;
  while (anywhere(bag < end_bag)) {
    const bool mine = group.lane < most && at + group.lane < stop;
    const bool found = mine && static_cast<uint64_t>(id) < view.count;
    const uint32_t row = found ? static_cast<uint32_t>(id) : 0;
    const unsigned counting = votes(group, found);
    Part<kChunks, kWide> part[kAhead];
    EMBERS_UNROLL
    for (int k = 0; k < kAhead; ++k) {
      const uint32_t of = from_lane(group, row, k & (group.lanes - 1));
      read_row(group, view.dim, view.any_row + product_of(of, view.stride), part[k]);
    }
    if (mine) {
      const auto source = static_cast<uint32_t>(view.first_bag + bag);
      if (view.items != nullptr) put_item(view, at + group.lane, found ? row : kNothing, source);
      if (!found) refuse(view.task, view.column, id, at + group.lane, view.first_bag + bag);
    }
    // What comes next: its ids are asked for while rows are on their way.
    const bool done = bag < end_bag && at + most >= stop, of_piece = piece;
    const int of_bag = bag;
    at = at + most < stop ? at + most : stop;
    if (done) {
      ++bag;
      piece = later > short_end - bag;
      stop = bag >= end_bag ? at : piece ? unit_end - bag : later;
      later = first_id_of(bag + 2);
    }
    ask();
    kept += ones(counting);
    EMBERS_UNROLL
    for (int k = 0; k < kAhead; ++k)
      if (counting >> k & 1) add(sum, 1, part[k]);
    if (!anywhere(done)) continue;
    bool complete = done && !of_piece;
    auto divisor = static_cast<float>(kept);
    if (anywhere(done && of_piece)) {
      const bool comes = done && of_piece;
      Extra extra{divisor, divisor};
      Units units{0, 0};
      if (comes) units = units_of(view.start(of_bag), view.start(of_bag + 1), shift);
      if (put_in(group, comes, view.dim, view.task.pieces, unit, units.first, units.last, sum, extra))
        complete = true;
      divisor = extra.divisor;
    }
    if (complete) {
      const float scale = scale_of(view.combiner, divisor);
      if (view.items != nullptr && group.lane == 0) view.task.state.scales[view.first_bag + of_bag] = scale;
      EMBERS_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        EMBERS_UNROLL
        for (int i = 0; i < kWide; ++i) sum.at[c][i] *= scale;
      }
      write_row(group, view.dim, view.out + of_bag * view.task.out_stride, sum);
    }
    if (done) {
      clear(sum);
      kept = 0;
    }
  }
}

// kPlain: no weights, max_norm, default_id or partitions anywhere. kDim: of all tables, or 0.
template <bool kPlain, int kDim, class Number, int kAhead, int kChunks, int kWide>
EMBERS_KERNEL void EMBERS_THREADS(kForwardThreads, kChunks* kWide <= 4 ? 3 : 1) forward(ForwardTask task) {
  int* const first = reinterpret_cast<int*>(shared_memory());
  const int columns = task.model.column_count, bags = static_cast<int>(task.batch.bags), shift = task.shift;
  share_out(columns, first, [&](int c) {
    const ColumnView<Number> view(task, c, kDim);
    return tasks_of(view.start(0), view.start(bags), shift, lanes_of<kDim, kWide>(view.table));
  });
  const int warps = threads() / kWarp * blocks();
  for (int t = threads() / kWarp * block_index() + thread_index() / kWarp; t < first[columns]; t += warps) {
    const int c = part_of(first, columns, t);
    const ColumnView<Number> view(task, c, kDim);
    const Group group = group_of(lanes_of<kDim, kWide>(view.table));
    const auto start = [&](int bag) { return view.start(bag); };
    const int groups = kWarp / group.lanes;
    const Units units = units_of(view.start(0), view.start(bags), shift);
    const int first_unit = units.first + (t - first[c]) * groups, end_unit = first_unit + groups;
    const TwoNumbers found = first_from(bags, first_unit << shift, end_unit << shift, start);
    const int unit = first_unit + group.number;
    int from = bags, to = bags;
    if (unit <= units.last) {
      from = first_from_between(found.a, found.b, unit << shift, start);
      to = first_from_between(from, found.b, (unit + 1) << shift, start);
    }
    const int its_unit = unit <= units.last ? unit : units.last + 1;
    if constexpr (kPlain) {
      plain_units<kAhead, kChunks, kWide>(group, view, its_unit, from, to);
    } else {
      forward_units<kAhead, kChunks, kWide>(group, view, its_unit, from, to);
    }
  }
}

}  // namespace embers::cuda
