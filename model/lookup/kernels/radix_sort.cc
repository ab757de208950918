#include "model/lookup/kernels/radix_sort.h"

#include <algorithm>

namespace embers {
namespace {

constexpr size_t kFew = 256;  // from here on counting pays
constexpr unsigned kMostDigitBits = 12;

}  // namespace

RadixSort::RadixSort(size_t words, unsigned low, unsigned high, Scratch<uint32_t>& counts) : low_(low) {
  if (words < kFew) return;
  const unsigned bits = high - low;
  digits_ = std::max(1u, (bits + kMostDigitBits - 1) / kMostDigitBits);
  bits_ = (bits + digits_ - 1) / digits_;
  mask_ = (uint64_t{1} << bits_) - 1;
  const std::span<uint32_t> all = counts.take(size_t{digits_} << bits_);
  std::fill(all.begin(), all.end(), 0);
  counts_ = all.data();
}

std::span<uint64_t> RadixSort::sort(std::span<uint64_t> words, std::span<uint64_t> other) const {
  if (digits_ == 0) {
    std::sort(words.begin(), words.end());
    return words;
  }
  for (unsigned i = 0; i < digits_; ++i) {
    uint32_t* const next = counts_ + (size_t{i} << bits_);
    uint32_t sum = 0;
    for (size_t value = 0; value <= mask_; ++value) {
      const uint32_t count = next[value];
      next[value] = sum;
      sum += count;
    }
    const unsigned shift = low_ + i * bits_;
    for (const uint64_t word : words) other[next[word >> shift & mask_]++] = word;
    std::swap(words, other);
  }
  return words;
}

}  // namespace embers
