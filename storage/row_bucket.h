#pragma once

#include <cstddef>
#include <cstdint>

namespace embers::storage {

// A *word* and a row: the word is the int64 key itself, or the hash of a byte string, which whoever asks
// compares in full.
struct RowCell {
  uint64_t word;
  uint32_t row;
};

// A cache line of a RowIndex: cells [0, count) are used.
struct alignas(64) RowBucket {
  static constexpr uint32_t kCells = 5;
  static constexpr uint32_t kPassed = 1u << 31;
  static RowBucket kNoBucket;  // empty, of an index without buckets

  uint64_t word[kCells];
  uint32_t row[kCells];
  uint32_t state;  // count, and kPassed: a key of this bucket or of one before it lies in one behind

  uint32_t count() const { return state & ~kPassed; }
  bool passed() const { return (state & kPassed) != 0; }
  // Bit k: cell k is used and holds this word.
  uint32_t matches(uint64_t wanted) const {
    uint32_t hits = 0;
    for (uint32_t k = 0; k < kCells; ++k) hits |= static_cast<uint32_t>(word[k] == wanted) << k;
    return hits & ((1u << count()) - 1);
  }
  void add(uint64_t new_word, uint32_t new_row) {
    const uint32_t k = count();
    word[k] = new_word;
    row[k] = new_row;
    ++state;
  }
  void remove(uint32_t k) {
    const uint32_t last = count() - 1;
    word[k] = word[last];
    row[k] = row[last];
    --state;
  }
};
static_assert(sizeof(RowBucket) == 64);

}  // namespace embers::storage
