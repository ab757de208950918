#include "storage/row_index.h"

#include <algorithm>

namespace embers::storage {

void RowIndex::put(Place place, uint64_t word, uint32_t row) {
  Bucket* bucket = place.bucket();
  while (bucket->count() == kCells) {
    bucket->state |= kPassed;
    place.at = place.array->next(place.at);
    bucket = place.bucket();
  }
  const uint32_t k = bucket->count();
  bucket->word[k] = word;
  bucket->row[k] = row;
  ++bucket->state;
}

bool RowIndex::runs_into_moved(Place place) const {
  if (place.array != &old_) return false;
  for (; place.bucket()->count() == kCells; place.at = old_.next(place.at))
    if (old_.next(place.at) == first_) return true;
  return false;
}

void RowIndex::add(uint64_t hash, uint64_t word, uint32_t row, Place free, Place last) {
  if (free.array != nullptr) {
    put(free, word, row);
  } else if (runs_into_moved(last)) {
    move(old_.buckets);
    put(home(hash), word, row);
  } else {
    put(last, word, row);
  }
  ++size_;
}

void RowIndex::erase(uint64_t hash, uint64_t word, uint32_t row) {
  for (Place place = home(hash);; place.at = place.array->next(place.at)) {
    Bucket& bucket = *place.bucket();
    for (uint32_t hits = bucket.matches(word); hits != 0; hits &= hits - 1) {
      const auto k = static_cast<uint32_t>(__builtin_ctz(hits));
      if (bucket.row[k] != row) continue;
      const uint32_t last = bucket.count() - 1;
      bucket.word[k] = bucket.word[last];
      bucket.row[k] = bucket.row[last];
      --bucket.state;
      --size_;
      if (++erased_ > now_.buckets * kCells / 2 && old_.buckets == 0) begin_growth();
      return;
    }
    if (!bucket.passed()) return;
  }
}

void RowIndex::begin_growth() {
  const uint64_t quarters = size_ < kSmall ? 8 : 5;
  // At least as many as are there when the last bucket has moved.
  const uint64_t rows = std::max(size_ * quarters / 4, size_ + now_.buckets / kMovesAtOnce + 1);
  Array grown;
  grown.buckets = std::max(kFewest, rows * 100 / (kFull * kCells) + 1);
  const size_t bytes = grown.buckets * sizeof(Bucket);
  grown.pages = Pages(bytes, bytes >= kHugePage);
  old_ = std::move(now_);
  now_ = std::move(grown);
  limit_ = now_.buckets * kCells * kFull / 100;
  first_ = moved_ = dropped_ = erased_ = 0;
  // A run that goes around the end must not be cut: begin behind a bucket that is not passed.
  while (first_ + 1 < old_.buckets && old_.data()[first_ == 0 ? old_.buckets - 1 : first_ - 1].passed())
    ++first_;
  move(kMovesAtOnce);
}

void RowIndex::move(uint64_t buckets) {
  for (bool in_run = true; moved_ < old_.buckets && (buckets > 0 || in_run); ++moved_) {
    const uint64_t at = (first_ + moved_) % old_.buckets;
    const Bucket& bucket = old_.data()[at];
    for (uint32_t k = 0; k < bucket.count(); ++k)
      put({&now_, now_.home(hash_of(bucket.word[k]))}, bucket.word[k], bucket.row[k]);
    in_run = bucket.passed();
    if (buckets > 0) --buckets;
  }
  if (moved_ == old_.buckets)
    old_ = {};
  else
    drop_moved();
}

// Whole huge pages behind the place where moving goes on.
void RowIndex::drop_moved() {
  const uint64_t begin = (first_ * sizeof(Bucket) + kHugePage - 1) / kHugePage * kHugePage + dropped_;
  const uint64_t end = std::min(first_ + moved_, old_.buckets) * sizeof(Bucket) / kHugePage * kHugePage;
  if (end <= begin) return;
  old_.pages.drop(begin, end - begin);
  dropped_ += end - begin;
}

// Of a new array only what has been written to.
uint64_t RowIndex::resident_bytes() const {
  if (old_.buckets == 0) return now_.pages.size();
  return now_.pages.size() / old_.buckets * moved_ + old_.pages.size() - dropped_;
}

}  // namespace embers::storage
