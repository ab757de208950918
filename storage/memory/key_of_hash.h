#pragma once

#include <bit>
#include <cstdint>

namespace embers::storage {

// The int64 key that has this hash_key(): undoes its steps, one by one.
inline int64_t key_of_hash(uint64_t hash) {
  constexpr uint64_t kSecret = 0x1cad21f72c81017cULL ^ 0xdb979083e96dd4deULL;
  constexpr uint64_t kPrime = 0x9fb21c651e98df25ULL;
  constexpr uint64_t kInverse = [] {  // of kPrime modulo 2^64, by Newton's method
    uint64_t x = kPrime;
    for (int i = 0; i < 6; ++i) x *= 2 - kPrime * x;
    return x;
  }();
  uint64_t h = hash;
  h ^= h >> 28 ^ h >> 56;
  h *= kInverse;
  h ^= (h >> 35) + sizeof h;  // its upper bits were left as they are
  h *= kInverse;
  // x -> x ^ rotl(x, 49) ^ rotl(x, 24), 64 times, is the identity. So its inverse is that map applied 63
  // times; applied 2^k times, it is the same map with rotations 2^k times as far.
  for (int k = 1; k < 64; k *= 2) h ^= std::rotl(h, 49 * k % 64) ^ std::rotl(h, 24 * k % 64);
  return static_cast<int64_t>(std::rotl(h ^ kSecret, 32));
}

}  // namespace embers::storage
