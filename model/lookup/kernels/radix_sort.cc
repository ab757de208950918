#include "model/lookup/kernels/radix_sort.h"

#include <algorithm>

namespace embers {
namespace {

constexpr size_t kFew = 256;  // from here on counting pays
constexpr unsigned kMostDigitBits = 12;

}  // namespace

std::span<uint64_t> radix_sort(std::span<uint64_t> words, std::span<uint64_t> other,
                               Scratch<uint32_t>& counts, unsigned low, unsigned high) {
  if (words.size() < kFew) {
    std::sort(words.begin(), words.end());
    return words;
  }
  const unsigned bits = high - low;
  const unsigned passes = std::max(1u, (bits + kMostDigitBits - 1) / kMostDigitBits);
  const unsigned digit = (bits + passes - 1) / passes;
  const size_t values = size_t{1} << digit;
  const std::span<uint32_t> all = counts.take(values * passes);
  std::fill(all.begin(), all.end(), 0);
  const uint64_t mask = values - 1;
  for (const uint64_t word : words)
    for (unsigned i = 0; i < passes; ++i) ++all[i * values + (word >> (low + i * digit) & mask)];
  for (unsigned i = 0; i < passes; ++i) {
    uint32_t* next = all.data() + i * values;
    uint32_t sum = 0;
    for (size_t v = 0; v < values; ++v) {
      const uint32_t count = next[v];
      next[v] = sum;
      sum += count;
    }
    const unsigned shift = low + i * digit;
    for (const uint64_t word : words) other[next[word >> shift & mask]++] = word;
    std::swap(words, other);
  }
  return words;
}

}  // namespace embers
