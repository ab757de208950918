#pragma once

#include <cstdint>
#include <span>

#include "base/scratch.h"

namespace embers {

// Sorts words by their bits [low, high), which hold the highest that is set; words that are equal there keep
// their order. The caller, who makes the words, counts each of them, then has them sorted.
class RadixSort {
 public:
  // Of so many words. `counts` is scratch until they are sorted.
  RadixSort(size_t words, unsigned low, unsigned high, Scratch<uint32_t>& counts);

  // In so many digits. 0: these are so few that counting does not pay; their bits below `low` ascend.
  unsigned digits() const { return digits_; }
  // kDigits: digits(), or 0 for any number.
  template <unsigned kDigits>
  void count(uint64_t word) const {
    const unsigned digits = kDigits == 0 ? digits_ : kDigits;
    for (unsigned i = 0; i < digits; ++i) ++counts_[i << bits_ | (word >> (low_ + i * bits_) & mask_)];
  }
  // `other` is of the same size. Returns whichever of the two then holds the result.
  std::span<uint64_t> sort(std::span<uint64_t> words, std::span<uint64_t> other) const;

 private:
  unsigned low_, bits_ = 0, digits_ = 0;  // bits: of a digit
  uint64_t mask_ = 0;
  uint32_t* counts_ = nullptr;
};

}  // namespace embers
