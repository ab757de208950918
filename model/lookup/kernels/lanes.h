#pragma once

#include <cstdint>
#include <cstring>

#include "base/floats/instruction_sets.h"

// Eight floats in a register, for kernels that one file compiles for AVX2 and for any CPU from the same
// lines: EMBERS_INLINE functions, called by one with EMBERS_FOR_AVX2 (where that is defined) and by one
// without.
#if defined(__x86_64__)
#define EMBERS_FOR_AVX2 __attribute__((target("avx2,fma")))
#endif

namespace embers {
namespace {

constexpr int64_t kLanes = 8;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
// As floats lie in memory: at any of them.
typedef Lanes LanesInMemory __attribute__((aligned(sizeof(float)), may_alias));

// By reference: passed by value, they would have another ABI with AVX than without.
// The first `columns` of eight; the others become zeros, or stay as they are.
EMBERS_INLINE void load(Lanes& lanes, const float* from, int64_t columns) {
  if (columns == kLanes) {
    lanes = *reinterpret_cast<const LanesInMemory*>(from);
  } else {
    lanes = Lanes{};
    std::memcpy(&lanes, from, static_cast<size_t>(columns) * sizeof(float));
  }
}
EMBERS_INLINE void store(float* to, const Lanes& lanes, int64_t columns) {
  if (columns == kLanes)
    *reinterpret_cast<LanesInMemory*>(to) = lanes;
  else
    std::memcpy(to, &lanes, static_cast<size_t>(columns) * sizeof(float));
}

#if defined(EMBERS_FOR_AVX2)
inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
#endif

}  // namespace
}  // namespace embers
