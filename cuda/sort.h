#pragma once

#include <cmath>

#include "cuda/grid.h"

// Sorts items by key, by all blocks of one cooperative launch: a radix sort of each table's items by row,
// from the lowest digit up. (They come in the order of tables.) Stable, so that the items of a row stay in
// the order of the ids. Each block has a stretch of the items, and of each table the *piece* that lies in it.
// In each pass a block counts the digits of its pieces, finds out where each of them goes, and moves its
// items, tile by tile: a tile is put in order in shared memory first, so that neighbours are written
// together.
namespace embers::cuda {

constexpr int kSortThreads = 256;
constexpr int kSortBlocks = 3;  // of a processor
constexpr int kSortWarps = kSortThreads / kWarp;
constexpr int kItemsPerThread = 16;
constexpr int kVotesAtOnce = 4;  // items for which a warp's votes are under way together
constexpr int kTile = kSortThreads * kItemsPerThread;
constexpr int kLeastDigitBits = 5, kMostDigitBits = 8;
constexpr int kMostDigits = 1 << kMostDigitBits;

struct SortPlan {
  int passes;
  int bits;  // of a digit
};
// For numbers below `most`.
EMBERS_BOTH SortPlan sort_plan(uint64_t most) {
  int all = kLeastDigitBits;
  while (all < 32 && most > uint64_t{1} << all) ++all;
  const int passes = (all + kMostDigitBits - 1) / kMostDigitBits, bits = (all + passes - 1) / passes;
  return {passes, bits < kLeastDigitBits ? kLeastDigitBits : bits};
}

// Steps are counted on the device, so that a launch can be repeated as it is (by a CUDA graph): adds one to
// *count, and leaves in *rate the learning rate, for Adam with its bias correction.
struct Steps {
  int64_t* count;  // null: this is none
  float* rate;
  bool adam;
  double learning_rate, beta_1, beta_2;
};

EMBERS_DEVICE double power(double base, int64_t exponent) {
  double product = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 != 0) product *= base;
  return product;
}

EMBERS_DEVICE void count_step(const Steps& steps) {
  const int64_t step = ++*steps.count;
  double rate = steps.learning_rate;
  if (steps.adam) rate *= sqrt(1 - power(steps.beta_2, step)) / (1 - power(steps.beta_1, step));
  *steps.rate = static_cast<float>(rate);
}

struct SortTask {
  Model model;
  embers_cuda_batch batch;
  const void* items;  // to sort, Item or ShortItem; they stay as they are
  void* sorted[2];    // pass p leaves its result in sorted[p % 2]
  int bag_bits;       // of a ShortItem
  bool lengthen;      // the last pass makes ShortItems Items
  int count;          // of which there may be fewer
  int stretch;        // items of a block, but for the last ones
  SortPlan plan;
  int few_pieces;  // where no table has more of them, add_up_pieces() is left out
  // Of each piece one for each digit; after add_up_pieces() how many of the digit the pieces of the same
  // table have that come before. The piece of block b and table t is number b + t.
  unsigned* counts;
  unsigned* totals;  // of each table one for each digit, by add_up_pieces()
  // Where gradients are wanted: runs_before[u] becomes the number of rows whose runs begin before unit u, for
  // all units and one more; *run_count that of all.
  int* runs_before;
  unsigned* block_runs;  // of each block
  int64_t* run_count;
  int shift;
  Steps steps;
};

template <class AnyItem>
struct SortMemory {
  AnyItem tile[kTile];
  unsigned short
      of_warp[kSortWarps * kMostDigits];  // how many a warp has of each digit; then those before it have
  unsigned begin[kMostDigits];            // where a digit begins in the tile
  unsigned base[kMostDigits];             // where the next item of it goes
  unsigned to[kMostDigits];               // where the tile's first item of it goes, less `begin`
  unsigned sums[kSortWarps][kWarp];
};

// Sum of x over the threads before this one, in the order of threads. By all threads of a block of
// kSortThreads.
template <class AnyItem>
EMBERS_DEVICE unsigned sum_before(unsigned x, SortMemory<AnyItem>& memory, unsigned* all) {
  const int lane = thread_index() % kWarp, warp = thread_index() / kWarp;
  unsigned sum = x;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const unsigned other = shuffle(kWholeWarp, sum, lane >= distance ? lane - distance : lane);
    if (lane >= distance) sum += other;
  }
  if (lane == kWarp - 1) memory.sums[0][warp] = sum;
  sync_block();
  unsigned before = 0, total = 0;
  for (int w = 0; w < kSortWarps; ++w) {
    before += w < warp ? memory.sums[0][w] : 0;
    total += memory.sums[0][w];
  }
  sync_block();
  *all = total;
  return before + sum - x;
}

struct Piece {
  int number;
  int begin, end;
};
// The pieces of this block. begins[t]: where a table's items begin; begins[table_count]: their end.
template <class Use>
EMBERS_DEVICE void each_piece(const SortTask& task, const int* begins, Use use) {
  const int tables = task.model.table_count;
  const int64_t first = int64_t{block_index()} * task.stretch;
  const int all = begins[tables];
  const int begin = first < all ? static_cast<int>(first) : all;
  const int end = all - begin > task.stretch ? begin + task.stretch : all;
  if (begin == end) return;
  for (int t = part_of(begins, tables, begin); t < tables && begins[t] < end; ++t) {
    const Piece piece{block_index() + t, begins[t] > begin ? begins[t] : begin,
                      begins[t + 1] < end ? begins[t + 1] : end};
    if (piece.begin < piece.end) use(t, piece);
  }
}

// A digit of the rows of a table's items.
struct Digits {
  uint32_t first_key;  // of the table; 0 for ShortItems
  int low_bit, bits;   // of ShortItems above bag_bits
  EMBERS_DEVICE unsigned of(Item item) const {
    return (key_of(item) - first_key) >> low_bit & ((1u << bits) - 1);
  }
  EMBERS_DEVICE unsigned of(ShortItem item) const { return item >> low_bit & ((1u << bits) - 1); }
};

// Where a pass leaves its items.
template <class AnyItem>
struct Moved {
  AnyItem* to;
  EMBERS_DEVICE void put(unsigned place, AnyItem item) const { to[place] = item; }
};
// What makes the ShortItems of a table Items.
struct Lengthened {
  Item* to;
  uint32_t first_key, rows, first_bag;
  int bag_bits;
  EMBERS_DEVICE void put(unsigned place, ShortItem item) const {
    const uint32_t row = item >> bag_bits, bag = item & ((1u << bag_bits) - 1);
    to[place] = item_of(first_key + row, row == rows ? kNothing : first_bag + bag);
  }
};

template <class AnyItem>
EMBERS_DEVICE void count_digits(const SortTask& task, const AnyItem* from, const Piece& piece,
                                const Digits& digits, SortMemory<AnyItem>& memory) {
  unsigned* const count = memory.begin;
  const int all = 1 << digits.bits;
  for (int d = thread_index(); d < all; d += threads()) count[d] = 0;
  sync_block();
  // A thread takes some at a time, so that loads overlap.
  constexpr int kAtOnce = 8;
  for (int at = piece.begin + thread_index(); at < piece.end; at += kAtOnce * kSortThreads) {
    AnyItem item[kAtOnce];
    EMBERS_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const int mine = at + k * kSortThreads;
      item[k] = read_shared_by_blocks(from + (mine < piece.end ? mine : piece.end - 1));
    }
    EMBERS_UNROLL
    for (int k = 0; k < kAtOnce; ++k)
      if (at + k * kSortThreads < piece.end) atomic_add(&count[digits.of(item[k])], 1u);
  }
  sync_block();
  for (int d = thread_index(); d < all; d += threads())
    task.counts[int64_t{piece.number} * all + d] = count[d];
  sync_block();
}

// The numbers of a table's pieces: `count` of them.
struct PieceNumbers {
  int first, count;
};
EMBERS_DEVICE PieceNumbers pieces_of(const SortTask& task, const int* begins, int table) {
  if (begins[table] == begins[table + 1]) return {0, 0};
  const int first = begins[table] / task.stretch, last = (begins[table + 1] - 1) / task.stretch;
  return {first + table, last - first + 1};
}

// Each count becomes the sum of those of the table's pieces before; totals become those of all its pieces. A
// block takes a table's next 32 digits, each of its warps a part of the pieces.
template <class AnyItem>
EMBERS_DEVICE void add_up_pieces(const SortTask& task, const int* begins, SortMemory<AnyItem>& memory) {
  const int all = 1 << task.plan.bits, groups = all / kWarp;
  const int lane = thread_index() % kWarp, warp = thread_index() / kWarp;
  for (int i = block_index(); i < task.model.table_count * groups; i += blocks()) {
    const int table = i / groups, digit = i % groups * kWarp + lane;
    const auto [first, pieces] = pieces_of(task, begins, table);
    const int begin = first + pieces * warp / kSortWarps, end = first + pieces * (warp + 1) / kSortWarps;
    unsigned sum = 0;
    for (int p = begin; p < end; ++p) sum += read_shared_by_blocks(task.counts + int64_t{p} * all + digit);
    memory.sums[warp][lane] = sum;
    sync_block();
    unsigned before = 0, total = 0;
    for (int w = 0; w < kSortWarps; ++w) {
      before += w < warp ? memory.sums[w][lane] : 0;
      total += memory.sums[w][lane];
    }
    sync_block();
    for (int p = begin; p < end; ++p) {
      unsigned* const at = task.counts + int64_t{p} * all + digit;
      const unsigned count = read_shared_by_blocks(at);
      *at = before;
      before += count;
    }
    if (warp == 0) task.totals[table * all + digit] = total;
  }
}

// base[digit] for a piece of a table. added_up: whether add_up_pieces() has been there. Where no table has
// more than a few pieces, each of them is faster to add up for itself what comes before it than to wait for
// all blocks.
template <class AnyItem>
EMBERS_DEVICE void find_bases(const SortTask& task, const int* begins, int table, const Piece& piece,
                              bool added_up, SortMemory<AnyItem>& memory) {
  const int all = 1 << task.plan.bits, d = thread_index();
  static_assert(kMostDigits <= kSortThreads);
  unsigned total = 0, before_here = 0, ignored = 0;
  if (d < all && added_up) {
    total = read_shared_by_blocks(task.totals + table * all + d);
    before_here = read_shared_by_blocks(task.counts + int64_t{piece.number} * all + d);
  } else if (d < all) {
    const PieceNumbers pieces = pieces_of(task, begins, table);
    for (int p = pieces.first; p < pieces.first + pieces.count; ++p) {
      const unsigned count = read_shared_by_blocks(task.counts + int64_t{p} * all + d);
      total += count;
      if (p < piece.number) before_here += count;
    }
  }
  const unsigned before = sum_before(total, memory, &ignored);
  if (d < all) memory.base[d] = static_cast<unsigned>(begins[table]) + before + before_here;
  sync_block();
}

// Lanes of the warp that have the same digit as this one. Lanes that have none (`live` false) have none in
// common.
EMBERS_DEVICE unsigned alike(unsigned digit, int bits, bool live) {
  unsigned mask = ballot(kWholeWarp, live);
  for (int i = 0; i < bits; ++i) {
    const bool bit = digit >> i & 1;
    const unsigned with = ballot(kWholeWarp, bit);
    mask &= bit ? with : ~with;
  }
  return mask;
}

// Moves the items [tile_begin, tile_end) of a piece, at most kTile. kFull: exactly as many, so that no item
// needs a question whether it is there.
template <bool kFull, class AnyItem, class To>
EMBERS_DEVICE void move_tile(const AnyItem* from, const To& to, int tile_begin, int tile_end, Digits digits,
                             SortMemory<AnyItem>& memory) {
  const int all = 1 << digits.bits, d = thread_index();
  const int lane = thread_index() % kWarp, warp = thread_index() / kWarp;
  const int first = tile_begin + warp * kWarp * kItemsPerThread + lane;
  const auto is_there = [&](int k) { return kFull || first + k * kWarp < tile_end; };
  AnyItem item[kItemsPerThread];
  EMBERS_UNROLL
  for (int k = 0; k < kItemsPerThread; ++k)
    item[k] = read_shared_by_blocks(from + (is_there(k) ? first + k * kWarp : tile_end - 1));
  for (int i = thread_index(); i < kSortWarps * all / 2; i += kSortThreads)
    reinterpret_cast<unsigned*>(memory.of_warp)[i] = 0;
  sync_block();
  forget(digits.low_bit);
  // The place of each item among those of its digit in its warp.
  unsigned short* const of_warp = memory.of_warp + warp * all;
  unsigned places[kItemsPerThread / 2];  // two in a word, to save registers
  EMBERS_UNROLL
  for (int first_k = 0; first_k < kItemsPerThread; first_k += kVotesAtOnce) {
    unsigned same[kVotesAtOnce];
    EMBERS_UNROLL
    for (int i = 0; i < kVotesAtOnce; ++i)
      same[i] = alike(digits.of(item[first_k + i]), digits.bits, is_there(first_k + i));
    EMBERS_UNROLL
    for (int i = 0; i < kVotesAtOnce; ++i) {
      const int k = first_k + i;
      const unsigned digit = digits.of(item[k]);
      const unsigned before = ones(same[i] & ((1u << lane) - 1));
      const unsigned place = of_warp[digit] + before;
      sync_warp(kWholeWarp);
      if (is_there(k) && before == 0) of_warp[digit] = static_cast<unsigned short>(place + ones(same[i]));
      sync_warp(kWholeWarp);
      places[k / 2] = k % 2 == 0 ? place : places[k / 2] | place << 16;
    }
  }
  sync_block();
  // Where digits begin in the tile, and in each warp's part of it.
  unsigned count = 0, ignored = 0;
  if (d < all) {
    EMBERS_UNROLL
    for (int w = 0; w < kSortWarps; ++w) {
      unsigned short* const at = memory.of_warp + w * all + d;
      const unsigned mine = *at;
      *at = static_cast<unsigned short>(count);
      count += mine;
    }
  }
  const unsigned begin = sum_before(count, memory, &ignored);
  if (d < all) {
    memory.begin[d] = begin;
    memory.to[d] = memory.base[d] - begin;
    memory.base[d] += count;
  }
  sync_block();
  forget(digits.low_bit);
  EMBERS_UNROLL
  for (int k = 0; k < kItemsPerThread; ++k) {
    const unsigned digit = digits.of(item[k]);
    const unsigned place = memory.begin[digit] + of_warp[digit] + (places[k / 2] >> 16 * (k % 2) & 0xffff);
    if (is_there(k)) memory.tile[place] = item[k];
  }
  sync_block();
  forget(digits.low_bit);
  EMBERS_UNROLL
  for (int k = 0; k < kItemsPerThread; ++k) {
    const int i = k * kSortThreads + thread_index();
    if (kFull || i < tile_end - tile_begin) {
      const AnyItem moved = memory.tile[i];
      to.put(memory.to[digits.of(moved)] + static_cast<unsigned>(i), moved);
    }
  }
  sync_block();
}

// Moves the items of a piece.
template <class AnyItem, class To>
EMBERS_DEVICE void move_piece(const AnyItem* from, const To& to, const Piece& piece, const Digits& digits,
                              SortMemory<AnyItem>& memory) {
  int begin = piece.begin;
  for (; begin + kTile <= piece.end; begin += kTile)
    move_tile<true>(from, to, begin, begin + kTile, digits, memory);
  if (begin < piece.end) move_tile<false>(from, to, begin, piece.end, digits, memory);
}

// Rows that begin at a place: the first items of runs, but for those of ids that do not count.
EMBERS_DEVICE unsigned begins_row(const Item* sorted, int place) {
  const Item item = read_shared_by_blocks(sorted + place);
  if (source_of(item) == kNothing) return 0;
  return place == 0 || key_of(read_shared_by_blocks(sorted + place - 1)) != key_of(item);
}

template <class AnyItem>
EMBERS_DEVICE void count_runs(const SortTask& task, const Item* sorted, int count,
                              SortMemory<AnyItem>& memory) {
  const int units = (count + (1 << task.shift) - 1) >> task.shift;
  const int first = static_cast<int>(int64_t{units} * block_index() / blocks());
  const int last = static_cast<int>(int64_t{units} * (block_index() + 1) / blocks());
  unsigned sum = 0, all = 0;
  for (int u = first; u < last; u += threads()) {
    const int unit = u + thread_index();
    unsigned runs = 0;
    if (unit < last)
      for (int i = unit << task.shift; i < (unit + 1) << task.shift && i < count; ++i)
        runs += begins_row(sorted, i);
    const unsigned before = sum_before(runs, memory, &all);
    if (unit < last) task.runs_before[unit] = static_cast<int>(sum + before);
    sum += all;
  }
  if (thread_index() == 0) task.block_runs[block_index()] = sum;
  sync_grid();
  unsigned before = 0, total = 0;
  for (int b = 0; b < blocks(); b += threads()) {
    const int block = b + thread_index();
    const unsigned runs = block < blocks() ? read_shared_by_blocks(task.block_runs + block) : 0;
    sum_before(block < block_index() ? runs : 0, memory, &all);
    before += all;
    sum_before(runs, memory, &all);
    total += all;
  }
  for (int unit = first + thread_index(); unit < last; unit += threads())
    task.runs_before[unit] += static_cast<int>(before);
  if (block_index() == 0 && thread_index() == 0) {
    task.runs_before[units] = static_cast<int>(total);
    *task.run_count = total;
  }
}

}  // namespace embers::cuda
