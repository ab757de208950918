#include "storage/row_index.h"

#include <algorithm>

namespace embers::storage {

constinit RowBucket RowBucket::kNoBucket{};

void RowIndex::put(uint64_t at, uint64_t word, uint32_t row) {
  while (data_[at].count() == kCells) {
    if (at + 1 == end_) reserve(end_);
    data_[at].state |= RowBucket::kPassed;
    ++at;
  }
  data_[at].add(word, row);
}

void RowIndex::erase(uint64_t hash, uint64_t word, uint32_t row) {
  for (uint64_t at = home(hash);; ++at) {
    RowBucket& bucket = data_[at];
    for (uint32_t hits = bucket.matches(word); hits != 0; hits &= hits - 1) {
      const auto k = static_cast<uint32_t>(__builtin_ctz(hits));
      if (bucket.row[k] != row) continue;
      bucket.remove(k);
      --size_;
      if (++erased_ > buckets_ * kCells / 2 && left_ == 0) begin_growth();
      return;
    }
    if (!bucket.passed()) return;
  }
}

void RowIndex::begin_growth() {
  const uint64_t tenths = size_ < kSmall ? 20 : 16;
  // At least as many as are there when the last bucket has moved.
  const uint64_t rows = std::max(size_ * tenths / 10, size_ + buckets_ / kMovesAtOnce + 1);
  const uint64_t buckets = std::max({kFewest, buckets_, rows * 100 / (kFull * kCells) + 1});
  reserve(buckets);
  before_ = left_ = buckets_;
  buckets_ = buckets;
  limit_ = buckets_ * kCells * kFull / 100;
  erased_ = 0;
  settle(kMovesAtOnce);
}

void RowIndex::reserve(uint64_t buckets) {
  const size_t bytes = (buckets + kTail) * sizeof(RowBucket);
  pages_.grow(bytes, bytes >= kHugePage);
  data_ = reinterpret_cast<RowBucket*>(pages_.data());
  end_ = pages_.size() / sizeof(RowBucket);
}

void RowIndex::move(uint64_t buckets) {
  for (const uint64_t until = left_ - std::min(left_, buckets); left_ > until;)
    if (const uint64_t at = left_ - 1; !data_[at].passed() && (at == 0 || !data_[at - 1].passed()))
      move_bucket(at);
    else
      move_run();
}

void RowIndex::move_bucket(uint64_t at) {
  const RowBucket bucket = data_[at];
  data_[at] = {};
  left_ = at;
  for (uint32_t k = 0; k < bucket.count(); ++k)
    put(home_of(hash_of(bucket.word[k]), buckets_), bucket.word[k], bucket.row[k]);
}

void RowIndex::move_run() {
  uint64_t begin = left_ - 1;
  while (begin > 0 && data_[begin - 1].passed()) --begin;
  uint64_t end = left_;  // of those buckets that may hold keys of the run
  for (bool passed = data_[end - 1].passed(); passed; passed = data_[end++].passed())
    ;
  on_move_.clear();
  on_move_.reserve((end - begin) * kCells);
  for (uint64_t at = begin; at < end; ++at)
    for (uint32_t k = data_[at].count(); k-- > 0;) {
      const RowCell cell{data_[at].word[k], data_[at].row[k]};
      if (at >= left_ && home_of(hash_of(cell.word), before_) >= left_)
        continue;  // is there by the new layout
      on_move_.push_back(cell);
      if (at >= left_) data_[at].remove(k);
    }
  std::fill(data_ + begin, data_ + left_, RowBucket{});
  left_ = begin;
  for (const RowCell& cell : on_move_) put(home_of(hash_of(cell.word), buckets_), cell.word, cell.row);
}

// Of the new layout only what has been written to.
uint64_t RowIndex::resident_bytes() const {
  const uint64_t scratch = on_move_.capacity() * sizeof(RowCell);
  if (left_ == 0) return pages_.size() + scratch;
  const uint64_t written = std::max(before_, left_ * buckets_ / before_);
  return before_ * sizeof(RowBucket) + pages_.size() - written * sizeof(RowBucket) + scratch;
}

}  // namespace embers::storage
