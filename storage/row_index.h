#pragma once

#include <cstdint>
#include <vector>

#include "schema/ids.h"
#include "storage/pages.h"
#include "storage/prefetch.h"
#include "storage/row_bucket.h"

namespace embers::storage {

// From a key to the number of its row: open addressing in buckets of one cache line (row_bucket.h), so that a
// key that is there costs one miss.
//
// A key's home is its hash's share of the buckets, so that homes keep their order when the array grows. It
// grows in place and gradually: from the last bucket to the first, a few with each insertion (and with each
// batch that is read: settle()), each moving upwards into what is free already. Buckets below `left_` have
// the old layout, those from there on the new one. From kSmall rows on it grows by a half, so that at least
// 57 % of the cells are used: 23 bytes a row at most.
//
// Invariants: (1) cells [0, count) of a bucket are used; (2) a bucket that was full when a key of it or of
// one before it came is marked `passed`, and the key is in a bucket behind; (3) what moves at once begins
// behind a bucket that is not passed, and takes with it the keys that lie beyond `left_`.
//
// *Thread safety*: none.
class RowIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kCells = RowBucket::kCells;

  explicit RowIndex(KeyKind kind) : words_are_keys_(kind == KeyKind::kInt64) {}
  RowIndex(const RowIndex&) = delete;
  RowIndex& operator=(const RowIndex&) = delete;

  EMBERS_PREFETCHES void prefetch(uint64_t hash) const { __builtin_prefetch(data_ + home(hash)); }

  // For batches, in two stages with other work in between: where the search for each key begins, prefetched;
  // then the row of each word of that bucket, kNone if it has none, or kElsewhere if find() must look further
  // (the next bucket is prefetched; rare enough). Of several cells with a byte string's hash it is the first.
  EMBERS_PREFETCHES const RowBucket* prefetch_home(uint64_t hash) const {
    const RowBucket* const bucket = data_ + home(hash);
    __builtin_prefetch(bucket);
    return bucket;
  }
  EMBERS_PREFETCHES static void prefetch_next(const RowBucket* bucket) { __builtin_prefetch(bucket + 1); }
  static constexpr uint32_t kElsewhere = kNone - 1;
  static void find_at_home(const RowBucket* const* homes, const uint64_t* words, size_t n, uint32_t* rows);
  // Those that this machine can run, the fastest last: for tests.
  using FindAtHome = void (*)(const RowBucket* const* homes, const uint64_t* words, size_t n, uint32_t* rows);
  static const std::vector<FindAtHome>& ways_to_find();

  // The row of this word that same(row) accepts, or kNone. For int64 keys a word is enough.
  template <class Same>
  uint32_t find(uint64_t hash, uint64_t word, const Same& same) const;
  uint32_t find(uint64_t hash, uint64_t word) const {
    return find(hash, word, [](uint32_t) { return true; });
  }
  // The row of this word that same(row) accepts, which becomes `row` if there is none. `hash` belongs to
  // `word`. Throws std::bad_alloc, and then nothing was inserted.
  template <class Same>
  uint32_t find_or_insert(uint64_t hash, uint64_t word, uint32_t row, const Same& same);
  uint32_t find_or_insert(uint64_t hash, uint64_t word, uint32_t row) {
    return find_or_insert(hash, word, row, [](uint32_t) { return true; });
  }
  // Goes on with a growth that is under way, so that lookups need not tell two layouts apart for long.
  void settle(uint64_t buckets) {
    if (left_ != 0) move(buckets);
  }
  // Removes the cell of this row, which must be there.
  void erase(uint64_t hash, uint64_t word, uint32_t row);

  // Calls visit(word, row) for every cell.
  template <class Visit>
  void visit(const Visit& visit) const;

  uint64_t size() const { return size_; }
  uint64_t resident_bytes() const;

 private:
  static constexpr uint64_t kFewest = 56;      // buckets: with kTail one small page
  static constexpr uint64_t kTail = 8;         // buckets at least behind the last home
  static constexpr uint64_t kSmall = 700'000;  // rows below which it doubles
  static constexpr uint64_t kFull = 88;        // percent of the cells; from here on it grows
  static constexpr uint64_t kMovesAtOnce = 4;  // buckets

  // Of `buckets`, by the low half of the hash: the high bits choose the shard, so within a shard they are
  // alike.
  static uint64_t home_of(uint64_t hash, uint64_t buckets) {
    return (static_cast<uint32_t>(hash) * buckets) >> 32;
  }
  // While growing, one of two places, chosen without a branch: it could not be predicted.
  uint64_t home(uint64_t hash) const {
    const uint64_t at = home_of(hash, buckets_);
    if (left_ == 0) [[likely]]
      return at;
    const uint64_t before = home_of(hash, before_);
    return before < left_ ? before : at;
  }
  uint64_t hash_of(uint64_t word) const {
    return words_are_keys_ ? hash_key(static_cast<int64_t>(word)) : word;
  }
  // Into the first bucket from `at` on that has room.
  void put(uint64_t at, uint64_t word, uint32_t row);
  void make_room() {
    if (left_ != 0)
      move(kMovesAtOnce);
    else if (size_ >= limit_)
      begin_growth();
  }
  // To what fits size_, but never less than now.
  void begin_growth();
  // Makes room for `buckets` and a tail.
  void reserve(uint64_t buckets);
  // Moves `buckets` of the old layout and the rest of the last one's run.
  void move(uint64_t buckets);
  void move_bucket(uint64_t at);  // the last one, whose keys are in no other and which has no others
  void move_run();                // the last one's

  const bool words_are_keys_;
  Pages pages_;
  RowBucket* data_ = &RowBucket::kNoBucket;
  uint64_t buckets_ = 0;  // that are homes
  uint64_t end_ = 0;      // all that there are: what overflows the last home lies behind it
  uint64_t before_ = 0;   // homes of the old layout
  uint64_t left_ = 0;     // buckets that have the old layout; 0 when nothing grows
  uint64_t size_ = 0;
  uint64_t limit_ = 0;            // from this size on it grows
  uint64_t erased_ = 0;           // since the last growth: they leave marks behind
  std::vector<RowCell> on_move_;  // scratch
};

template <class Same>
[[gnu::always_inline]] inline uint32_t RowIndex::find(uint64_t hash, uint64_t word, const Same& same) const {
  for (const RowBucket* bucket = data_ + home(hash);; ++bucket) {
    for (uint32_t hits = bucket->matches(word); hits != 0; hits &= hits - 1) {
      const uint32_t row = bucket->row[__builtin_ctz(hits)];
      if (same(row)) return row;
    }
    if (!bucket->passed()) return kNone;
  }
}

template <class Same>
uint32_t RowIndex::find_or_insert(uint64_t hash, uint64_t word, uint32_t row, const Same& same) {
  make_room();
  const uint64_t first = home(hash);
  uint64_t free = UINT64_MAX;
  for (uint64_t at = first;; ++at) {
    RowBucket& bucket = data_[at];
    for (uint32_t hits = bucket.matches(word); hits != 0; hits &= hits - 1) {
      const uint32_t found = bucket.row[__builtin_ctz(hits)];
      if (same(found)) return found;
    }
    if (free == UINT64_MAX && bucket.count() < kCells) free = at;
    if (bucket.passed()) continue;
    if (free != UINT64_MAX)
      data_[free].add(word, row);
    else
      put(at, word, row);
    ++size_;
    return row;
  }
}

template <class Visit>
void RowIndex::visit(const Visit& visit) const {
  for (uint64_t at = 0; at < end_; ++at)
    for (uint32_t k = 0; k < data_[at].count(); ++k) visit(data_[at].word[k], data_[at].row[k]);
}

}  // namespace embers::storage
