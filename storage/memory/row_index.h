#pragma once

#include <cassert>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "base/floats/prefetch.h"
#include "schema/ids.h"
#include "storage/memory/pages.h"
#include "storage/memory/row_bucket.h"
#include "storage/memory/row_nodes.h"
#include "storage/memory/row_slabs.h"

namespace embers::storage {

// From a key to the number of its row: an array of buckets of one cache line (row_bucket.h). What a bucket
// has no room for is in nodes that hang off it, so finding a key usually costs one cache miss, as does
// finding that it is not there, and neither costs more than a few, however full the array is. (Open
// addressing makes long runs: at 85 % the search for a key that is not there read five lines.)
//
// A key's home is its hash's share of the buckets, so that homes keep their order when the array grows. It
// grows in place and gradually: from the last bucket to the first, a few with each insertion (and with each
// batch that is read: settle()), each moving upwards into what is free already. Buckets below `left_` have
// the old layout, those from there on the new one.
//
// Keys are told apart by their 64-bit hash, which for int64 keys is a permutation (key_of_hash.h). Rows are
// numbered from 0 on, and no number exceeds the largest number of cells that there were at any time.
//
// Invariant: a bucket with nodes is full, as are its nodes but for the first.
//
// *Thread safety*: none.
class RowIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kCells = RowBucket::kCells;
  static constexpr uint64_t kMostAtOnce = 64;

  // `filler` must outlive it; without one, pages are made when they are touched.
  explicit RowIndex(PageFiller* filler = nullptr) : filler_(filler) {}
  RowIndex(const RowIndex&) = delete;
  RowIndex& operator=(const RowIndex&) = delete;

  // Prefetches the hash's bucket.
  EMBERS_PREFETCHES void prefetch(uint64_t hash) const { prefetch_line(data_ + home(hash)); }
  // Prefetches the first node of that bucket, which should be there by now.
  EMBERS_PREFETCHES void prefetch_node(uint64_t hash) const {
    if (const uint32_t node = data_[home(hash)].node(); node != 0) nodes_.prefetch(node);
  }

  // Writes rows[i], the row of hashes[i] or kNone; of several cells with a byte string's hash it is the
  // first. Faster than find() for each, because requests to memory go out ahead.
  void find_all(std::span<const uint64_t> hashes, std::span<uint32_t> rows, bool avx512 = has_avx512()) {
    find_all(hashes, rows.data(), Where(), avx512);
  }
  // Writes places[i], where that row lies in these slabs, or nullptr.
  void find_all(std::span<const uint64_t> hashes, const RowSlabs& slabs, std::span<float*> places,
                bool avx512 = has_avx512()) {
    find_all(hashes, places.data(), Where{&slabs}, avx512);
  }

  // The row of this hash that same(row) accepts, or kNone. For int64 keys a hash is enough.
  template <class Same>
  uint32_t find(uint64_t hash, const Same& same) const;
  uint32_t find(uint64_t hash) const {
    return find(hash, [](uint32_t) { return true; });
  }
  // The row of this hash that same(row) accepts, which becomes `row` if there is none. Throws std::bad_alloc,
  // and then nothing was inserted.
  template <class Same>
  uint32_t find_or_insert(uint64_t hash, uint32_t row, const Same& same) {
    make_room(1);
    return find_or_add(hash, row, same);
  }
  uint32_t find_or_insert(uint64_t hash, uint32_t row) {
    return find_or_insert(hash, row, [](uint32_t) { return true; });
  }
  // The same in two parts: make_room() for up to kMostAtOnce keys, then as many calls of find_or_add(), which
  // move nothing. Throws std::bad_alloc.
  void make_room(uint64_t keys) {
    assert(keys <= kMostAtOnce);
    if (left_ != 0)
      move(kMovesForEach * keys);
    else if (size_ >= limit_)
      begin_growth();
  }
  template <auto matches = &RowBucket::matches, class Same>
  uint32_t find_or_add(uint64_t hash, uint32_t row, const Same& same);
  // Continues a growth that is under way, so that lookups do not have to deal with two layouts for long.
  // Without memory for that, it does not: lookups need none.
  void settle(uint64_t buckets) {
    if (left_ == 0) return;
    try {
      move(buckets);
    } catch (const std::bad_alloc&) {
    }
  }
  // Removes the cell of this row, which must be there.
  void erase(uint64_t hash, uint32_t row);

  // Calls visit(hash, row) for every cell.
  template <class Visit>
  void visit(const Visit& visit) const;

  uint64_t size() const { return size_; }
  uint64_t resident_bytes() const;

 private:
  static constexpr uint64_t kFewest = 64;  // buckets: a small page
  static_assert(kFewest >= RowBucket::kFewest);
  static constexpr uint64_t kSmall = 5'000'000;  // rows below which it doubles: 50 MB more, and fewer moves
  static constexpr uint64_t kGrowth = 133;       // percent, from there on
  static constexpr uint64_t kFull = 74;          // percent of the cells; from here on it grows
  static constexpr uint64_t kMovesForEach = 4;   // buckets, for each new key
  static constexpr uint64_t kMovesAtOnce = 32;   // buckets

  // While growing, one of two places, chosen without a branch, which could not be predicted.
  uint64_t home(uint64_t hash) const {
    const uint64_t at = RowBucket::home(hash, buckets_);
    if (left_ == 0) [[likely]]
      return at;
    const uint64_t before = RowBucket::home(hash, before_);
    return before < left_ ? before : at;
  }
  // The number of buckets in the layout that this bucket has now.
  uint64_t buckets_at(uint64_t bucket) const { return bucket < left_ ? before_ : buckets_; }
  bool small_at(uint64_t bucket) const { return buckets_at(bucket) < RowBucket::kLarge; }
  struct Where {
    const RowSlabs* slabs = nullptr;
    void set(uint32_t& found, uint32_t row) const { found = row; }
    void set(float*& found, uint32_t row) const { found = row == kNone ? nullptr : slabs->row(row); }
  };
  // A hash of a batch, by its number, that is not in its bucket, and that bucket's first node.
  struct Elsewhere {
    uint32_t number, node;
  };
  // Found: uint32_t, rows, or float*, their places.
  template <class Found>
  void find_all(std::span<const uint64_t> hashes, Found* found, const Where& where, bool avx512);
  // find_all() without what is in nodes: returns how many it has put into elsewhere_, those that may be
  // there.
  template <auto matches, class Found>
  size_t find_at_homes(std::span<const uint64_t> hashes, Found* found, const Where& where);
  template <class Found>
  size_t find_at_homes_avx512(std::span<const uint64_t> hashes, Found* found, const Where& where);
  template <class Same>
  uint32_t find_in_nodes(uint32_t node, uint64_t hash, const Same& same) const;
  // The caller has reserved a node.
  void put(uint64_t bucket, uint64_t hash, uint32_t row, bool small) {
    if (data_[bucket].count() < kCells) [[likely]]
      data_[bucket].add(hash, row, small);
    else
      put_in_node(data_[bucket], hash, row);
  }
  void put_in_node(RowBucket& home, uint64_t hash, uint32_t row);
  // A cell of the bucket's nodes, which has some.
  RowCell take_from_node(RowBucket& home);
  // Begins to grow to what fits size_, but never to less than now.
  void begin_growth();
  // Moves this many buckets of the old layout.
  void move(uint64_t buckets);
  void move_at_once(uint64_t buckets);

  PageFiller* const filler_;
  Pages pages_;
  RowBucket* data_ = &RowBucket::kNoBucket;
  uint64_t buckets_ = 0;
  uint64_t before_ = 0;  // buckets of the old layout
  uint64_t left_ = 0;    // buckets that have the old layout; 0 when nothing grows
  uint64_t size_ = 0;
  uint64_t limit_ = 0;  // from this size on it grows
  RowNodes nodes_;
  std::vector<RowCell> on_move_;      // scratch
  std::vector<Elsewhere> elsewhere_;  // scratch of a batch
};

template <class Same>
[[gnu::always_inline]] inline uint32_t RowIndex::find(uint64_t hash, const Same& same) const {
  const RowBucket& bucket = data_[home(hash)];
  for (uint32_t hits = bucket.matches(hash); hits != 0; hits &= hits - 1) {
    const uint32_t row = bucket.row_at(__builtin_ctz(hits));
    if (same(row)) return row;
  }
  return find_in_nodes(bucket.node(), hash, same);
}

template <class Same>
uint32_t RowIndex::find_in_nodes(uint32_t node, uint64_t hash, const Same& same) const {
  for (; node != 0; node = nodes_[node].next)
    for (uint32_t k = 0; k < nodes_[node].count; ++k)
      if (nodes_[node].hash[k] == hash && same(nodes_[node].row[k])) return nodes_[node].row[k];
  return kNone;
}

template <auto matches, class Same>
[[gnu::always_inline]] inline uint32_t RowIndex::find_or_add(uint64_t hash, uint32_t row, const Same& same) {
  const uint64_t at = home(hash);
  const RowBucket& bucket = data_[at];
  for (uint32_t hits = (bucket.*matches)(hash); hits != 0; hits &= hits - 1) {
    const uint32_t found = bucket.row_at(__builtin_ctz(hits));
    if (same(found)) return found;
  }
  if (const uint32_t found = find_in_nodes(bucket.node(), hash, same); found != kNone) return found;
  nodes_.reserve(1);
  put(at, hash, row, small_at(at));
  ++size_;
  return row;
}

template <class Visit>
void RowIndex::visit(const Visit& visit) const {
  const auto show = [&](const RowCell& cell) { visit(cell.hash, cell.row); };
  for (uint64_t at = 0; at < buckets_; ++at) {
    const RowBucket& bucket = data_[at];
    const uint32_t first = RowBucket::first_of(at, buckets_at(at));
    for (uint32_t k = 0; k < bucket.count(); ++k) show(bucket.cell(k, first));
    for (uint32_t n = bucket.node(); n != 0; n = nodes_[n].next)
      for (uint32_t k = 0; k < nodes_[n].count; ++k) show({nodes_[n].hash[k], nodes_[n].row[k]});
  }
}

}  // namespace embers::storage
