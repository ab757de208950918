#pragma once

#include <cstdint>

namespace embers::data {

// A well mixed function of one number (the finalizer of SplitMix64).
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr uint64_t mix(uint64_t a, uint64_t b) { return mix(mix(a + 0x9e3779b97f4a7c15) ^ b); }

// SplitMix64. Unlike the distributions of <random>, the same numbers on every platform. Not thread safe.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }

  // Uniform in [0, n), without bias; n > 0.
  uint64_t below(uint64_t n) {
    unsigned __int128 product = static_cast<unsigned __int128>(next()) * n;
    // The lowest 2^64 mod n products would make some results likelier.
    for (const uint64_t reject = -n % n; static_cast<uint64_t>(product) < reject;) {
      product = static_cast<unsigned __int128>(next()) * n;
    }
    return static_cast<uint64_t>(product >> 64);
  }

  // Uniform in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace embers::data
