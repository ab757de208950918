#pragma once

#include <cstdint>

#include "schema/ids.h"
#include "storage/pages.h"
#include "storage/prefetch.h"

namespace embers::storage {

// From a key to the number of its row: open addressing in buckets of one cache line, so that a key that is
// there costs one miss. A cell holds a *word* and a row: the word is the int64 key itself, or the hash of a
// byte string, which whoever asks compares in full.
//
// Growth is gradual: the buckets of the old array move in their order, a few with each insertion, and what
// was left is given back to the system. In between a key is where its home bucket is. From kSmall rows on it
// grows by a quarter, so that at least 68 % of the cells are used: 19 bytes a row at most.
//
// Invariants: (1) cells [0, count) of a bucket are used; (2) a bucket that was full when a key of it or of
// one before it came is marked `passed`, and the key is in a bucket behind; (3) a run of passed buckets moves
// as a whole, so that no key of an unmoved bucket is in a moved one.
//
// *Thread safety*: none.
class RowIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kCells = 5;

  explicit RowIndex(KeyKind kind) : words_are_keys_(kind == KeyKind::kInt64) {}

  EMBERS_PREFETCHES void prefetch(uint64_t hash) const {
    if (now_.buckets != 0) __builtin_prefetch(home(hash).bucket());
  }
  // The row of this word that same(row) accepts, or kNone. For int64 keys a word is enough.
  template <class Same>
  [[gnu::always_inline]] uint32_t find(uint64_t hash, uint64_t word, const Same& same) const;
  [[gnu::always_inline]] uint32_t find(uint64_t hash, uint64_t word) const {
    return find(hash, word, [](uint32_t) { return true; });
  }
  // The row of this word that same(row) accepts, which becomes `row` if there is none. `hash` belongs to
  // `word`.
  template <class Same>
  uint32_t find_or_insert(uint64_t hash, uint64_t word, uint32_t row, const Same& same);
  uint32_t find_or_insert(uint64_t hash, uint64_t word, uint32_t row) {
    return find_or_insert(hash, word, row, [](uint32_t) { return true; });
  }
  // Removes the cell of this row, which must be there.
  void erase(uint64_t hash, uint64_t word, uint32_t row);

  // Calls visit(word, row) for every cell.
  template <class Visit>
  void visit(const Visit& visit) const;

  uint64_t size() const { return size_; }
  uint64_t resident_bytes() const;

 private:
  static constexpr uint64_t kFewest = 64;      // buckets: one small page
  static constexpr uint64_t kSmall = 1 << 18;  // rows below which it doubles
  static constexpr uint64_t kFull = 85;        // percent of the cells; from here on it grows
  static constexpr uint64_t kMovesAtOnce = 4;  // buckets
  static constexpr uint32_t kPassed = 1u << 31;

  struct alignas(64) Bucket {
    uint64_t word[kCells];
    uint32_t row[kCells];
    uint32_t state;  // count, and kPassed
    uint32_t count() const { return state & ~kPassed; }
    bool passed() const { return (state & kPassed) != 0; }
    // Bit k: cell k is used and holds this word.
    uint32_t matches(uint64_t wanted) const {
      uint32_t hits = 0;
      for (uint32_t k = 0; k < kCells; ++k) hits |= static_cast<uint32_t>(word[k] == wanted) << k;
      return hits & ((1u << count()) - 1);
    }
  };
  static_assert(sizeof(Bucket) == 64);

  struct Array {
    Pages pages;
    uint64_t buckets = 0;
    Bucket* data() const { return reinterpret_cast<Bucket*>(pages.data()); }
    // By the low half of the hash: the high bits choose the shard, so within a shard they are alike.
    uint64_t home(uint64_t hash) const { return (static_cast<uint32_t>(hash) * buckets) >> 32; }
    uint64_t next(uint64_t at) const { return at + 1 == buckets ? 0 : at + 1; }
  };
  struct Place {
    const Array* array;
    uint64_t at;
    Bucket* bucket() const { return array->data() + at; }
  };

  Place home(uint64_t hash) const {
    if (old_.buckets != 0) {
      const uint64_t at = old_.home(hash);
      const uint64_t distance = at >= first_ ? at - first_ : at + old_.buckets - first_;
      if (distance >= moved_) return {&old_, at};
    }
    return {&now_, now_.home(hash)};
  }
  uint64_t hash_of(uint64_t word) const {
    return words_are_keys_ ? hash_key(static_cast<int64_t>(word)) : word;
  }
  // Into the first bucket from `place` on that has room.
  static void put(Place place, uint64_t word, uint32_t row);
  // Of a key that is not there, into `free` if that is a place, else from `last`, the end of its run, on.
  void add(uint64_t hash, uint64_t word, uint32_t row, Place free, Place last);
  void make_room() {
    if (old_.buckets != 0)
      move(kMovesAtOnce);
    else if (size_ >= limit_)
      begin_growth();
  }
  // Whether a new cell of this home would come to lie where old_ has moved already.
  bool runs_into_moved(Place place) const;
  // Into an array of a size that fits size_, which may be smaller after many were erased.
  void begin_growth();
  // Moves `buckets` and the rest of the last one's run.
  void move(uint64_t buckets);
  void drop_moved();

  const bool words_are_keys_;
  Array now_, old_;       // old_ only while growing
  uint64_t first_ = 0;    // of old_: where moving began
  uint64_t moved_ = 0;    // buckets of old_ that moved, from first_ on and around the end
  uint64_t dropped_ = 0;  // bytes of old_ that were given back
  uint64_t size_ = 0;
  uint64_t limit_ = 0;   // from this size on now_ grows
  uint64_t erased_ = 0;  // since the last growth: they leave marks behind
};

template <class Same>
inline uint32_t RowIndex::find(uint64_t hash, uint64_t word, const Same& same) const {
  if (now_.buckets == 0) return kNone;
  for (Place place = home(hash);; place.at = place.array->next(place.at)) {
    const Bucket& bucket = *place.bucket();
    for (uint32_t hits = bucket.matches(word); hits != 0; hits &= hits - 1) {
      const uint32_t row = bucket.row[__builtin_ctz(hits)];
      if (same(row)) return row;
    }
    if (!bucket.passed()) return kNone;
  }
}

template <class Same>
uint32_t RowIndex::find_or_insert(uint64_t hash, uint64_t word, uint32_t row, const Same& same) {
  make_room();
  Place free{nullptr, 0};
  for (Place place = home(hash);; place.at = place.array->next(place.at)) {
    const Bucket& bucket = *place.bucket();
    for (uint32_t hits = bucket.matches(word); hits != 0; hits &= hits - 1) {
      const uint32_t found = bucket.row[__builtin_ctz(hits)];
      if (same(found)) return found;
    }
    if (free.array == nullptr && bucket.count() < kCells) free = place;
    if (bucket.passed()) continue;
    add(hash, word, row, free, place);
    return row;
  }
}

template <class Visit>
void RowIndex::visit(const Visit& visit) const {
  const auto show = [&](const Bucket& bucket) {
    for (uint32_t k = 0; k < bucket.count(); ++k) visit(bucket.word[k], bucket.row[k]);
  };
  for (uint64_t at = 0; at < now_.buckets; ++at) show(now_.data()[at]);
  for (uint64_t i = moved_; i < old_.buckets; ++i) show(old_.data()[(first_ + i) % old_.buckets]);
}

}  // namespace embers::storage
