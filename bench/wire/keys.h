#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace embers {

inline constexpr uint32_t kBenchDim = 64;
inline constexpr size_t kBenchKeys = 4096;      // of a minibatch
inline constexpr size_t kBenchMinibatches = 4;  // different ones, of bench wire
inline constexpr size_t kBenchOutstanding = 8;  // pulls that a client has under way, of bench wire
inline constexpr int64_t kWireRows = kBenchMinibatches * kBenchKeys;

// Keys 0 .. rows-1 in a random order, cut into minibatches of kBenchKeys.
class KeyMinibatches {
 public:
  explicit KeyMinibatches(int64_t rows);
  // Distinct keys of 0 .. rows-1 that were drawn by Zipf's law with exponent 1, ranks scattered over the
  // rows: some of them are in every minibatch.
  static KeyMinibatches zipf(int64_t rows);
  size_t size() const { return keys_.size() / kBenchKeys; }
  std::span<const int64_t> operator[](size_t i) const {
    return std::span(keys_).subspan(i % size() * kBenchKeys, kBenchKeys);
  }

 private:
  KeyMinibatches() = default;

  std::vector<int64_t> keys_;
};

// What the rows of bench wire hold, on all sides.
inline float wire_value(int64_t key, size_t column) {
  return static_cast<float>(key) + static_cast<float>(column) / kBenchDim;  // exact
}

// Of all floats, in eight sums so that it takes no longer than reading them.
double sum_of(std::span<const float> floats);

// Looks at the first and the last number of a reply, the rows of this minibatch in order of its keys, while
// it is timed. kInternal when they are others.
class WireReplies {
 public:
  void check(size_t minibatch, std::span<const float> rows) const;

 private:
  const KeyMinibatches keys_{kWireRows};
};

}  // namespace embers
