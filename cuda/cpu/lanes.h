#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

// The CPU's side of cuda/lanes.h, for tests: a grid runs as fibers, one for each thread, that take turns on
// one thread of the process. A fiber runs until it must wait for others (of its group, block or grid). Which
// one runs next is decided by a seed, so that what depends on the order of threads shows.
#define EMBERS_KERNEL inline
#define EMBERS_DEVICE inline
#define EMBERS_BOTH inline
#define EMBERS_UNROLL
#define EMBERS_NO_UNROLL
#define EMBERS_THREADS(most, blocks)

namespace embers::cuda {

namespace cpu {

struct Grid {
  int blocks = 1;
  int threads = 32;
  size_t shared_bytes = 0;
  bool cooperative = false;  // all blocks at once; else one after another
  unsigned seed = 1;
};
void run(const Grid& grid, const std::function<void()>& kernel);
// Another one for each launch.
unsigned next_seed();

int thread_index();
int threads();
int block_index();
int blocks();
char* shared_memory();
void sync_block();
void sync_grid();
// Waits for the lanes of `mask`, which all bring a word; `words` becomes those of the whole warp.
void exchange(unsigned mask, uint64_t word, uint64_t words[32]);
int lane();
// Of the present thread: sets of copies, which happen no sooner than they are waited for.
void copy_ahead(char* to, const void* from, int bytes);
void end_copies();
void wait_for_copies(int others);

}  // namespace cpu

using cpu::block_index;
using cpu::blocks;
using cpu::end_copies;
using cpu::shared_memory;
using cpu::sync_block;
using cpu::sync_grid;
using cpu::thread_index;
using cpu::threads;

inline void sync_warp(unsigned mask) {
  uint64_t words[32];
  cpu::exchange(mask, 0, words);
}
inline unsigned ballot(unsigned mask, bool x) {
  uint64_t words[32];
  cpu::exchange(mask, x, words);
  unsigned all = 0;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) all |= static_cast<unsigned>(words[i]) << i;
  return all;
}
template <class T>
T shuffle(unsigned mask, T x, int lane) {
  uint64_t words[32], word = 0;
  std::memcpy(&word, &x, sizeof x);
  cpu::exchange(mask, word, words);
  std::memcpy(&x, &words[lane], sizeof x);
  return x;
}
template <class T>
T shuffle_xor(unsigned mask, T x, int distance) {
  return shuffle(mask, x, cpu::lane() ^ distance);
}
inline int ones(unsigned x) { return __builtin_popcount(x); }
inline int lowest_one(unsigned x) { return __builtin_ffs(static_cast<int>(x)) - 1; }

inline uint64_t product_of(uint32_t a, uint32_t b) { return uint64_t{a} * b; }

template <class T>
T atomic_add(T* at, T x) {
  const T before = *at;
  *at += x;
  return before;
}
inline unsigned long long atomic_min(unsigned long long* at, unsigned long long x) {
  const unsigned long long before = *at;
  if (x < before) *at = x;
  return before;
}
inline unsigned long long atomic_cas(unsigned long long* at, unsigned long long expected,
                                     unsigned long long x) {
  const unsigned long long before = *at;
  if (before == expected) *at = x;
  return before;
}
inline void fence() {}
template <class T>
T read_shared_by_blocks(const T* at) {
  return *at;
}
template <class T>
void write_once(T* at, T x) {
  *at = x;
}

template <int kBytes>
void copy_ahead(char* to, const void* from) {
  cpu::copy_ahead(to, from, kBytes);
}
template <int kOthers>
void wait_for_copies() {
  cpu::wait_for_copies(kOthers);
}

struct Half {
  uint16_t bits;
};
float to_float(Half x);
Half to_half(float x);

struct alignas(16) Float4 {
  float x, y, z, w;
};
struct alignas(8) Half4 {
  Half x, y, z, w;
};
template <int kWide>
void read(const float* from, float (&to)[kWide]) {
  for (int i = 0; i < kWide; ++i) to[i] = from[i];
}
template <int kWide>
void read(const Half* from, float (&to)[kWide]) {
  for (int i = 0; i < kWide; ++i) to[i] = to_float(from[i]);
}
inline void forget(int&) {}
inline float magnitude(float x) { return std::fabs(x); }
inline float exact_root(float x) { return std::sqrt(x); }
inline float root(float x) { return std::sqrt(x); }
inline float quotient(float x, float y) { return x / y; }

}  // namespace embers::cuda
