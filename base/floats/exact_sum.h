#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace embers {

// A sum of squares of floats without rounding, so that it is the same whatever the order and portions in
// which its terms are added. Fixed point: 768 bits, the lowest of weight 2^-384; squares of floats and their
// sums in double have bits from 2^-350 on.
class ExactSum {
 public:
  static constexpr size_t kWords = 24;

  // x: finite, at least 0, a sum of squares of floats, computed in double. At most 2^32 terms in one sum.
  void add(double x);
  void add(const ExactSum& other);
  double value() const;

  // 32 bits a word, lowest first. Reading back: kBadFrame for any other number of words.
  std::array<uint64_t, kWords> words() const;
  static ExactSum from_words(std::span<const uint64_t> words);

 private:
  static constexpr int kLowest = -384;

  std::array<uint64_t, kWords> words_{};  // a word may exceed 32 bits until words() carries
};

}  // namespace embers
