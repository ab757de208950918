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

// A cache line of a RowIndex: cells [0, count) are used. What does not fit is in nodes, see RowNode.
struct alignas(64) RowBucket {
  static constexpr uint32_t kCells = 5;
  static RowBucket kNoBucket;  // empty, of an index without buckets

  uint64_t word[kCells];
  uint32_t row[kCells];
  uint32_t state;  // count in the lowest three bits, above them the first node

  static constexpr uint32_t kCountBits = 3;
  uint32_t count() const { return state & 7; }
  // Number of the first node, 0 for none.
  uint32_t node() const { return state >> kCountBits; }
  void set_node(uint32_t node) { state = count() | node << kCountBits; }
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

// Half a cache line of the cells of a bucket that overflowed. Only the first node of a bucket may have room.
struct alignas(32) RowNode {
  static constexpr uint32_t kCells = 2;

  uint64_t word[kCells];
  uint32_t row[kCells];
  uint32_t count;
  uint32_t next;  // number of the next node, 0 for none
};
static_assert(sizeof(RowNode) == 32);

}  // namespace embers::storage
