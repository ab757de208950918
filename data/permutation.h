#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace embers::data {

// The order of an epoch: blocks in random order, and the records of each block in random order. A pure
// function of (seed, epoch, sizes of the blocks), the same on every platform. Memory: O(blocks), and O(block)
// per records_of().
class Permutation {
 public:
  // Records of each block, in file order. `shuffled` false gives the file order.
  Permutation(uint64_t seed, uint64_t epoch, std::span<const uint32_t> block_records, bool shuffled);

  uint64_t records() const { return starts_.back(); }

  struct Place {
    uint32_t block;  // in file order
    uint64_t at;     // place in the order of that block
  };
  // The record at `position` < records() of the epoch's order.
  Place at(uint64_t position) const;

  // The order of a block's records: numbers within the block, 0-based.
  std::vector<uint32_t> records_of(uint32_t block) const;

 private:
  std::vector<uint32_t> sizes_;   // of blocks in file order
  std::vector<uint32_t> blocks_;  // in the epoch's order
  std::vector<uint64_t> starts_;  // places where they begin, and the end
  uint64_t seed_;                 // of seed and epoch
  bool shuffled_;
};

}  // namespace embers::data
