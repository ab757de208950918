#include "storage/memory/row_index.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace embers::storage {

constinit RowBucket RowBucket::kNoBucket{};

namespace {

constexpr size_t kAhead = kLinesAhead;  // keys between prefetching a bucket, or a node, and looking into it

}  // namespace

template <auto matches, class Found>
EMBERS_INLINE size_t RowIndex::find_at_homes(std::span<const uint64_t> hashes, Found* found,
                                             const Where& where) {
  constexpr size_t kPlaces = 2 * kAhead;
  static_assert(kPlaces > kAhead);
  const RowBucket* homes[kPlaces];
  const size_t n = hashes.size();
  const uint64_t* const hash = hashes.data();
  Elsewhere* const elsewhere = elsewhere_.data();
  size_t left = 0;
  const auto look = [&](size_t i) __attribute__((always_inline)) {
    const RowBucket& bucket = *homes[i % kPlaces];
    if (const uint32_t hits = (bucket.*matches)(hash[i]); hits != 0) [[likely]] {
      where.set(found[i], bucket.row_at(static_cast<uint32_t>(__builtin_ctz(hits))));
      return;
    }
    where.set(found[i], kNone);
    if (const uint32_t node = bucket.node(); node != 0) {
      elsewhere[left++] = {static_cast<uint32_t>(i), node};
    }
  };
  for (size_t i = 0; i < n; ++i) {
    const RowBucket* const bucket = data_ + home(hash[i]);
    prefetch_line(bucket);
    if (i >= kAhead) look(i - kAhead);
    homes[i % kPlaces] = bucket;
  }
  for (size_t i = n - std::min(n, kAhead); i < n; ++i) look(i);
  return left;
}

#if defined(EMBERS_AVX512)
template <class Found>
EMBERS_AVX512 size_t RowIndex::find_at_homes_avx512(std::span<const uint64_t> hashes, Found* found,
                                                    const Where& where) {
  return find_at_homes<&RowBucket::matches_avx512>(hashes, found, where);
}
#endif

template <class Found>
void RowIndex::find_all(std::span<const uint64_t> hashes, Found* found, const Where& where, bool avx512) {
  elsewhere_.resize(hashes.size() + 1);
#if defined(EMBERS_AVX512)
  const size_t left = avx512 ? find_at_homes_avx512(hashes, found, where)
                             : find_at_homes<&RowBucket::matches>(hashes, found, where);
#else
  static_cast<void>(avx512);
  const size_t left = find_at_homes<&RowBucket::matches>(hashes, found, where);
#endif
  for (size_t t = 0; t < std::min(left, kAhead); ++t) prefetch_line(&nodes_[elsewhere_[t].node]);
  for (size_t t = 0; t < left; ++t) {
    if (t + kAhead < left) prefetch_line(&nodes_[elsewhere_[t + kAhead].node]);
    const auto [number, node] = elsewhere_[t];
    where.set(found[number], find_in_nodes(node, hashes[number], [](uint32_t) { return true; }));
  }
}

template void RowIndex::find_all(std::span<const uint64_t>, uint32_t*, const Where&, bool);
template void RowIndex::find_all(std::span<const uint64_t>, float**, const Where&, bool);

void RowIndex::put_in_node(RowBucket& home, uint64_t hash, uint32_t row) {
  if (home.node() == 0 || nodes_[home.node()].count == RowNode::kCells)
    home.set_node(nodes_.take(home.node()));
  RowNode& node = nodes_[home.node()];
  node.hash[node.count] = hash;
  node.row[node.count++] = row;
}

RowCell RowIndex::take_from_node(RowBucket& home) {
  RowNode& node = nodes_[home.node()];
  --node.count;
  const RowCell cell{node.hash[node.count], node.row[node.count]};
  if (node.count == 0) home.set_node(nodes_.give_back(home.node()));
  return cell;
}

void RowIndex::erase(uint64_t hash, uint32_t row) {
  const uint64_t at = home(hash);
  RowBucket& bucket = data_[at];
  --size_;
  for (uint32_t k = 0; k < bucket.count(); ++k)
    if (bucket.row_at(k) == row) {
      bucket.remove(k);
      if (bucket.node() == 0) return;
      const RowCell cell = take_from_node(bucket);
      return bucket.add(cell.hash, cell.row, small_at(at));
    }
  // Its place is taken by a cell of the first node.
  const RowCell last = take_from_node(bucket);
  if (last.row == row) return;
  for (uint32_t n = bucket.node();; n = nodes_[n].next)
    for (uint32_t k = 0; k < nodes_[n].count; ++k)
      if (nodes_[n].row[k] == row) {
        nodes_[n].hash[k] = last.hash;
        nodes_[n].row[k] = last.row;
        return;
      }
}

void RowIndex::begin_growth() {
  const uint64_t percent = size_ < kSmall ? 200 : kGrowth;
  // At least as many as there will be when the last bucket has moved.
  const uint64_t rows = std::max(size_ * percent / 100, size_ + buckets_ / kMovesForEach + 1);
  const uint64_t buckets = std::max({kFewest, buckets_, rows * 100 / (kFull * kCells) + 1});
  const size_t bytes = buckets * sizeof(RowBucket);
  const size_t before = pages_.size();
  pages_.grow(bytes, bytes >= kHugePage);
  if (filler_ != nullptr && bytes >= kHugePage) pages_.fill_soon(*filler_, before, pages_.size() - before);
  data_ = reinterpret_cast<RowBucket*>(pages_.data());
  before_ = left_ = buckets_;
  buckets_ = buckets;
  limit_ = buckets_ * kCells * kFull / 100;
  if (left_ != 0) move(kMovesForEach);
}

void RowIndex::move(uint64_t buckets) {
  for (const uint64_t until = left_ - std::min(left_, buckets); left_ > until;)
    move_at_once(std::min(left_ - until, kMovesAtOnce));
}

// All cells are taken from their buckets before the first one is put into its new place, each by a plain
// loop. What later turns need is prefetched: buckets, their nodes, and where their cells will go.
void RowIndex::move_at_once(uint64_t buckets) {
  const uint64_t begin = left_ - buckets;
  // As many as are moved now, so that each bucket has its turn once.
  const auto ahead = [&](uint64_t distance) {
    const uint64_t end = begin - std::min(begin, distance);
    return std::pair(end - std::min(end, buckets), end);
  };
  for (auto [at, end] = ahead(96); at < end; ++at) prefetch_line(data_ + at);
  for (auto [at, end] = ahead(40); at < end; ++at) nodes_.prefetch(data_[at].node());
  const auto [next, next_end] = ahead(8);
  for (uint64_t at = next; at < next_end; ++at)
    if (const uint32_t node = data_[at].node(); node != 0) nodes_.prefetch(nodes_[node].next);
  for (uint64_t at = next * buckets_ / before_; at < next_end * buckets_ / before_; ++at)
    __builtin_prefetch(data_ + at, 1);

  size_t most = buckets * kCells;
  for (uint64_t at = begin; at < left_; ++at)
    for (uint32_t n = data_[at].node(); n != 0; n = nodes_[n].next) most += nodes_[n].count;
  if (on_move_.size() < most) on_move_.resize(most);
  nodes_.reserve(static_cast<uint32_t>(most));  // from here on nothing throws
  RowCell* end = on_move_.data();
  for (uint64_t at = begin; at < left_; ++at) {
    RowBucket& bucket = data_[at];
    bucket.cells(RowBucket::first_of(at, before_), end);  // a division
    end += bucket.count();
    for (uint32_t n = bucket.node(); n != 0; n = nodes_.give_back(n))
      for (uint32_t k = 0; k < nodes_[n].count; ++k) *end++ = {nodes_[n].hash[k], nodes_[n].row[k]};
    bucket = {};
  }
  left_ = begin;
  const auto put_all = [&](auto small) {
    for (const RowCell* cell = on_move_.data(); cell != end; ++cell)
      put(RowBucket::home(cell->hash, buckets_), cell->hash, cell->row, small);
  };
  if (buckets_ < RowBucket::kLarge)
    put_all(std::true_type());
  else
    put_all(std::false_type());
}

// Counts only what has been written to of the new layout, though its pages may be there already.
uint64_t RowIndex::resident_bytes() const {
  const uint64_t others = on_move_.capacity() * sizeof(RowCell) + elsewhere_.capacity() * sizeof(Elsewhere) +
                          nodes_.resident_bytes();
  if (left_ == 0) return pages_.size() + others;
  const uint64_t written = std::max(before_, left_ * buckets_ / before_);
  return before_ * sizeof(RowBucket) + pages_.size() - written * sizeof(RowBucket) + others;
}

}  // namespace embers::storage
