#pragma once

#include <array>
#include <cstdint>

namespace embers {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four random words
// that are a pure function of a 128-bit counter and a 64-bit key, so that any word can be computed without
// those before it.
using PhiloxKey = std::array<uint32_t, 2>;
inline constexpr int kPhiloxRounds = 10;

// One of its rounds. The key of the next one is philox_next(key).
inline void philox_round(uint32_t& x0, uint32_t& x1, uint32_t& x2, uint32_t& x3, PhiloxKey key) {
  const uint64_t a = uint64_t{0xD2511F53} * x0;
  const uint64_t b = uint64_t{0xCD9E8D57} * x2;
  x0 = static_cast<uint32_t>(b >> 32) ^ x1 ^ key[0];
  x1 = static_cast<uint32_t>(b);
  x2 = static_cast<uint32_t>(a >> 32) ^ x3 ^ key[1];
  x3 = static_cast<uint32_t>(a);
}
inline PhiloxKey philox_next(PhiloxKey key) { return {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85}; }

inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round, key = philox_next(key))
    philox_round(counter[0], counter[1], counter[2], counter[3], key);
  return counter;
}

}  // namespace embers
