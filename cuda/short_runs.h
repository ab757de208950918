#pragma once

#include "cuda/backward_rows.h"
#include "cuda/ring.h"

// The backward pass where most rows have one id, for kernels that know rule and dim. Goes through sorted
// items kRingItems at a time, whatever rows they are of. While some are added up, the gradients of the next
// ones are on their way, and of each that ends a run what the update needs of the row. (backward.h takes one
// row after another, with more warps at once: faster where rows have many ids.)
namespace embers::cuda {

constexpr int kRingStages = 2, kRingItems = 4;
constexpr int kShortRunBlocks = 3;  // of a processor

template <int kRule>
constexpr int kSlotsOf = kRule == EMBERS_CUDA_ADAM      ? 2
                         : kRule == EMBERS_CUDA_ADAGRAD ? 1
                                                        : 0;

template <int kRule, class Number>
class BackwardRing {
  static constexpr int kPlaces = kRingStages * kRingItems, kSlots = kSlotsOf<kRule>;
  using Floats = Ring<float, kBackwardThreads, kPlaces*(1 + kSlots)>;  // gradients; then slots
  using Rows = Ring<Number, kBackwardThreads, kPlaces>;

 public:
  static constexpr size_t kMemory = Floats::kMemory + Rows::kMemory;

  EMBERS_DEVICE explicit BackwardRing(char* memory) : floats_(memory), rows_(memory + Floats::kMemory) {}
  EMBERS_DEVICE void ask_gradient(int place, const float* from) { floats_.ask(place, from); }
  EMBERS_DEVICE void read_gradient(int place, Part<1, 4>& to) const { floats_.read(place, to.at[0]); }
  // `column`: the first of this lane's numbers.
  EMBERS_DEVICE void ask_row(int place, const TableRows<Number>& table, uint32_t row, int column) {
    rows_.ask(place, table.row(row) + column);
    EMBERS_UNROLL
    for (int s = 0; s < kSlots; ++s)
      floats_.ask(kPlaces * (1 + s) + place, table.slots[s] + table.slot(row) + column);
  }
  EMBERS_DEVICE void read_row(int place, RowAndSlots<1, 4>& to) const {
    rows_.read(place, to.row.at[0]);
    EMBERS_UNROLL
    for (int s = 0; s < kSlots; ++s) floats_.read(kPlaces * (1 + s) + place, to.slot[s].at[0]);
  }

 private:
  Floats floats_;
  Rows rows_;
};

// The items of a unit: of rows whose runs begin in it, and what it has of one that began before.
template <int kRule, class View>
class ShortRuns {
  using AnyItem = typename View::AnyItem;
  using Number = typename View::RowNumber;

 public:
  // `memory`: BackwardRing's, of the block.
  EMBERS_DEVICE ShortRuns(const Group& group, bool have, const View& view, int unit, char* memory)
      : group_(group),
        view_(view),
        unit_(unit),
        ring_(memory),
        column_(group.lane * 4 < view.rows.dim ? group.lane * 4 : 0) {
    const int shift = view.task.shift, size = 1 << shift, from = unit << shift;
    const Region region = view.region;
    clear(sum_);
    to_ = from + size;
    at_ = region.end;
    if (!have) return;
    at_ = from < region.begin ? region.begin : from;
    end_ = to_ < region.end ? to_ : region.end;
    const auto key_at = [&](int place) {
      const bool there = place >= region.begin && place < region.end;
      const uint32_t key = view.key_at(there ? place : at_);
      return there ? key : kNothing;
    };
    const uint32_t first = key_at(at_), before = key_at(at_ - 1), long_before = key_at(from - size - 1);
    const uint32_t last = key_at(to_ - 1), behind = key_at(to_), far = key_at(to_ + size);
    far_ = far;
    if (first == before) {
      earlier_ = first;
      earlier_is_long_ = long_before == first || behind == first;
    }
    if (last != earlier_ && last != far) follow_ = last;
  }

  // By all lanes of a warp.
  EMBERS_DEVICE void go() {
    soon_ = item_at(at_);
    later_ = item_at(at_ + kRingItems);
    Chunk chunks[kRingStages];
    EMBERS_UNROLL
    for (int s = 0; s < kRingStages - 1; ++s) chunks[s] = ask(at_ + s * kRingItems, s);
    for (int stage = 0; anywhere(at_ < end_ || chunks[0].live != 0); at_ += kRingItems) {
      chunks[kRingStages - 1] =
          ask(at_ + (kRingStages - 1) * kRingItems, stage == 0 ? kRingStages - 1 : stage - 1);
      wait_for_copies<kRingStages - 1>();
      if (anywhere(chunks[0].pieces != 0)) {
        EMBERS_NO_UNROLL
        for (int k = 0; k < kRingItems; ++k) add_item<true>(chunks[0], k, stage);
      } else {
        EMBERS_UNROLL
        for (int k = 0; k < kRingItems; ++k) add_item<false>(chunks[0], k, stage);
      }
      EMBERS_UNROLL
      for (int s = 0; s < kRingStages - 1; ++s) chunks[s] = chunks[s + 1];
      stage = stage == kRingStages - 1 ? 0 : stage + 1;
    }
  }

 private:
  // Items that are on their way: one in each of the first lanes, and a bit for each in all of them.
  struct Chunk {
    uint32_t key;
    float factor;
    unsigned live;    // its gradient counts, and it is this group's
    unsigned ends;    // its run ends with it, or the unit's piece of a long one
    unsigned pieces;  // that piece
  };

  EMBERS_DEVICE AnyItem item_at(int chunk) const {
    const int at = chunk + group_.lane;
    return group_.lane < kRingItems && at < view_.region.end ? view_.sorted[at] : view_.no_item();
  }

  // Asks for what the chunk of soon_ needs.
  EMBERS_DEVICE Chunk ask(int chunk, int stage) {
    const BackwardTask& task = view_.task;
    const int at = chunk + group_.lane, last = kRingItems - 1;
    const uint32_t key = view_.key(soon_), source = view_.source(soon_);
    const uint32_t next = from_lane(group_, key, (group_.lane + 1) & (group_.lanes - 1)),
                   next_chunk = from_lane(group_, view_.key(later_), 0);
    const bool is_long = key == far_ || key == earlier_;
    const bool live = group_.lane <= last && source != kNothing &&
                      (at < end_ ? key != earlier_ || earlier_is_long_ : key == follow_);
    const bool ends =
        live && ((group_.lane == last ? next_chunk : next) != key || (is_long && at + 1 == to_));
    const auto bag = live ? static_cast<int>(source) : view_.first_bag;
    const Chunk asked{key, task.scaled ? task.state.scales[bag] : 1, votes(group_, live), votes(group_, ends),
                      votes(group_, ends && is_long)};
    const uint32_t gradient = static_cast<uint32_t>(bag - view_.first_bag) * view_.gradient_stride +
                              static_cast<uint32_t>(view_.out_column);
    EMBERS_UNROLL
    for (int k = 0; k < kRingItems; ++k) {
      const uint32_t from = from_lane(group_, gradient, k);
      if (asked.live >> k & 1) ring_.ask_gradient(stage * kRingItems + k, task.out_gradient + from + column_);
    }
    EMBERS_UNROLL
    for (int k = 0; k < kRingItems; ++k) {
      const uint32_t of = from_lane(group_, key, k);
      if ((asked.ends & ~asked.pieces) >> k & 1)
        ring_.ask_row(stage * kRingItems + k, view_.rows, of - view_.first_key, column_);
    }
    end_copies();
    soon_ = later_;
    later_ = item_at(chunk + 2 * kRingItems);
    return asked;
  }

  template <bool kPieces>
  EMBERS_DEVICE void add_item(const Chunk& chunk, int k, int stage) {
    const float factor = view_.task.scaled ? from_lane(group_, chunk.factor, k) : 1;
    Part<1, 4> gradient;
    ring_.read_gradient(stage * kRingItems + k, gradient);
    if ((chunk.live >> k & 1) != 0 && factor != 0) add(sum_, factor, gradient);
    const bool ends = (chunk.ends >> k & 1) != 0;
    if (!anywhere(ends)) return;
    const uint32_t key = from_lane(group_, chunk.key, k);
    RowAndSlots<1, 4> row;
    ring_.read_row(stage * kRingItems + k, row);
    bool complete = ends;
    if constexpr (kPieces) {
      const bool comes = (chunk.pieces >> k & 1) != 0;
      if (anywhere(comes)) {
        const Units units = units_of_run(group_, comes, view_, key, unit_, key != earlier_);
        Extra none{0, 0};
        const bool all = put_in(group_, comes, view_.rows.dim, view_.task.pieces, unit_, units.first,
                                units.last, sum_, none);
        if (comes) complete = all;
        if (all) read_row_and_slots<kRule>(group_, view_.rows, key - view_.first_key, view_.task.rule, row);
      }
    }
    finish_row<kRule>(group_, complete, view_, key, 0, sum_, row);
    if (ends) clear(sum_);
  }

  const Group& group_;
  const View& view_;
  int unit_;
  BackwardRing<kRule, Number> ring_;
  int column_;                   // the first of this lane's numbers
  int at_, end_ = 0, to_;        // of the unit: the next item, that behind its last, where the unit ends
  uint32_t earlier_ = kNothing;  // the row whose run began before
  bool earlier_is_long_ = false;
  uint32_t far_ = kNothing;     // the row whose run is long, if it begins in the unit
  uint32_t follow_ = kNothing;  // the row whose run is followed beyond the unit
  AnyItem soon_, later_;        // of the chunk that is asked for next, and of the one behind
  Part<1, 4> sum_;
};

}  // namespace embers::cuda
