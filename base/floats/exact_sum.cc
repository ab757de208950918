#include "base/floats/exact_sum.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace embers {
namespace {

constexpr uint64_t kWordMask = 0xffffffff;

}  // namespace

void ExactSum::add(double x) {
  if (x == 0) return;
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);  // 53 bits below the point
  const int lowest = exponent - 53 - kLowest;
  auto bits = static_cast<unsigned __int128>(std::ldexp(fraction, 53)) << (lowest % 32);
  for (size_t w = lowest / 32; bits != 0; ++w, bits >>= 32)
    words_[w] += static_cast<uint64_t>(bits) & kWordMask;
}

void ExactSum::add(const ExactSum& other) {
  const auto theirs = other.words();
  for (size_t w = 0; w < kWords; ++w) words_[w] += theirs[w];
}

double ExactSum::value() const {
  const auto carried = words();
  double sum = 0;
  for (size_t w = kWords; w-- > 0;)
    sum += std::ldexp(static_cast<double>(carried[w]), kLowest + 32 * static_cast<int>(w));
  return sum;
}

std::array<uint64_t, ExactSum::kWords> ExactSum::words() const {
  auto carried = words_;
  for (size_t w = 0; w + 1 < kWords; ++w) {
    carried[w + 1] += carried[w] >> 32;
    carried[w] &= kWordMask;
  }
  return carried;
}

ExactSum ExactSum::from_words(std::span<const uint64_t> words) {
  if (words.size() != kWords)
    fail(ErrorCode::kBadFrame, "an exact sum came with {} words instead of {}", words.size(), kWords);
  ExactSum sum;
  std::copy(words.begin(), words.end(), sum.words_.begin());
  return sum;
}

}  // namespace embers
