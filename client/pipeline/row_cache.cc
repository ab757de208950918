#include "client/pipeline/row_cache.h"

#include <algorithm>

namespace embers {

RowCache::RowCache(KeyKind kind, uint32_t dim, size_t rows, uint64_t staleness)
    : kind_(kind),
      dim_(dim),
      staleness_(staleness),
      hands_(std::max<size_t>(1, (rows + kWays - 1) / kWays)),
      entries_(hands_.size() * kWays),
      bytes_(kind == KeyKind::kBytes ? entries_.size() : 0),
      rows_(entries_.size() * dim) {}

uint64_t RowCache::word(KeysView keys, size_t i) const {
  return kind_ == KeyKind::kInt64 ? static_cast<uint64_t>(keys.ints[i]) : hash_key(keys, i);
}

size_t RowCache::place_of(size_t set, uint64_t word, KeysView keys, size_t i) const {
  for (size_t at = set; at < set + kWays; ++at)
    if (entries_[at].step != kNever && entries_[at].word == word &&
        (kind_ == KeyKind::kInt64 || bytes_[at] == keys.bytes_at(i)))
      return at;
  return kNone;
}

RowCache::Found RowCache::find(KeysView keys, uint64_t step, std::span<float> out,
                               std::span<uint64_t> oldest) {
  Found found;
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t at = place_of(set_of(keys, i), word(keys, i), keys, i);
    if (at == kNone || !is_fresh(entries_[at], step)) {
      found.missing.push_back(static_cast<uint32_t>(i));
      continue;
    }
    Entry& entry = entries_[at];
    entry.used = true;
    std::copy_n(row(at), dim_, &out[i * dim_]);
    oldest[entry.owner] = std::min(oldest[entry.owner], entry.version);
    ++found.hits;
  }
  return found;
}

// A free entry, one that is too old, or the one that CLOCK picks.
size_t RowCache::victim(size_t set, uint64_t step) {
  for (size_t at = set; at < set + kWays; ++at)
    if (entries_[at].step == kNever || !is_fresh(entries_[at], step)) return at;
  for (uint8_t& hand = hands_[set / kWays];;) {
    const size_t at = set + hand;
    hand = static_cast<uint8_t>((hand + 1) % kWays);
    if (!std::exchange(entries_[at].used, false)) return at;
  }
}

void RowCache::put(KeysView keys, uint64_t step, size_t owner, uint64_t version,
                   std::span<const float> rows) {
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t w = word(keys, i);
    const size_t set = set_of(keys, i);
    size_t at = place_of(set, w, keys, i);
    if (at != kNone && entries_[at].step > step) continue;
    const bool known = at != kNone;
    if (!known) at = victim(set, step);
    size_ += entries_[at].step == kNever;
    entries_[at] = {w, step, version, static_cast<uint32_t>(owner), known && entries_[at].used};
    if (kind_ == KeyKind::kBytes && !known) bytes_[at] = keys.bytes_at(i);
    std::copy_n(&rows[i * dim_], dim_, row(at));
  }
}

}  // namespace embers
