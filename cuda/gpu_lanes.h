#pragma once

#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

// CUDA's side of lanes.h.
#define EMBERS_KERNEL __global__
#define EMBERS_DEVICE __device__ __forceinline__
#define EMBERS_BOTH __host__ __device__ __forceinline__
#define EMBERS_UNROLL _Pragma("unroll")
#define EMBERS_NO_UNROLL _Pragma("unroll 1")
#define EMBERS_THREADS(most, blocks) __launch_bounds__(most, blocks)

namespace embers::cuda {

__device__ __forceinline__ int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int threads() { return static_cast<int>(blockDim.x); }
__device__ __forceinline__ int block_index() { return static_cast<int>(blockIdx.x); }
__device__ __forceinline__ int blocks() { return static_cast<int>(gridDim.x); }

// Dynamic shared memory of the block.
__device__ __forceinline__ char* shared_memory() {
  extern __shared__ __align__(16) char embers_shared_memory[];
  return embers_shared_memory;
}

__device__ __forceinline__ void sync_block() { __syncthreads(); }
__device__ __forceinline__ void sync_warp(unsigned mask) { __syncwarp(mask); }
// All blocks of a cooperative launch.
__device__ __forceinline__ void sync_grid() { cooperative_groups::this_grid().sync(); }

__device__ __forceinline__ unsigned ballot(unsigned mask, bool x) { return __ballot_sync(mask, x); }
template <class T>
__device__ __forceinline__ T shuffle(unsigned mask, T x, int lane) {
  return __shfl_sync(mask, x, lane);
}
template <class T>
__device__ __forceinline__ T shuffle_xor(unsigned mask, T x, int distance) {
  return __shfl_xor_sync(mask, x, distance);
}
__device__ __forceinline__ int ones(unsigned x) { return __popc(x); }
__device__ __forceinline__ int lowest_one(unsigned x) { return __ffs(static_cast<int>(x)) - 1; }

// One instruction, where a product of 64-bit numbers would be several.
__device__ __forceinline__ uint64_t product_of(uint32_t a, uint32_t b) {
  uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}

// Each returns what was there before.
__device__ __forceinline__ unsigned atomic_add(unsigned* at, unsigned x) { return atomicAdd(at, x); }
__device__ __forceinline__ unsigned long long atomic_add(unsigned long long* at, unsigned long long x) {
  return atomicAdd(at, x);
}
__device__ __forceinline__ unsigned long long atomic_min(unsigned long long* at, unsigned long long x) {
  return atomicMin(at, x);
}
__device__ __forceinline__ unsigned long long atomic_cas(unsigned long long* at, unsigned long long expected,
                                                         unsigned long long x) {
  return atomicCAS(at, expected, x);
}
// What this thread wrote before is seen by whoever sees what it writes after.
__device__ __forceinline__ void fence() { __threadfence(); }

// Reads what other blocks of this launch have written.
template <class T>
__device__ __forceinline__ T read_shared_by_blocks(const T* at) {
  return __ldcg(at);
}
// Writes what is not needed again soon.
template <class T>
__device__ __forceinline__ void write_once(T* at, T x) {
  __stcs(at, x);
}

// Loads of global memory, all of which are under way before the first is waited for. (As compilers have it, a
// load of a pointer from memory is of any memory, and one under a condition is waited for at once.)
__device__ __forceinline__ void read(const float* from, float (&to)[4]) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "l"(from));
}
__device__ __forceinline__ void read(const float* from, float (&to)[1]) {
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(to[0]) : "l"(from));
}

// Copies to shared memory that go on while the thread does other things. Each belongs to the set that
// end_copies() closes next; wait_for_copies() waits until all sets but the last `kOthers` are there, for this
// thread to read.
template <int kBytes>
__device__ __forceinline__ void copy_ahead(char* to, const void* from) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
      "l"(from), "n"(kBytes)
      : "memory");
}
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kOthers>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOthers) : "memory");
}

// Makes a compiler work out again what depends on x, instead of keeping it in registers.
__device__ __forceinline__ void forget(int& x) { asm volatile("" : "+r"(x)); }

using Half = __half;
__device__ __forceinline__ float to_float(Half x) { return __half2float(x); }
// To nearest, as base/floats does: what is finite stays finite.
__device__ __forceinline__ Half to_half(float x) {
  return __float2half_rn(isfinite(x) ? fminf(fmaxf(x, -65504.0f), 65504.0f) : x);
}

__device__ __forceinline__ void read(const Half* from, float (&to)[4]) {
  unsigned low, high;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "l"(from));
  const float2 a = __half22float2(*reinterpret_cast<__half2*>(&low)),
               b = __half22float2(*reinterpret_cast<__half2*>(&high));
  to[0] = a.x, to[1] = a.y, to[2] = b.x, to[3] = b.y;
}
__device__ __forceinline__ void read(const Half* from, float (&to)[1]) {
  unsigned short bits;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(bits) : "l"(from));
  to[0] = __half2float(__ushort_as_half(bits));
}

using Float4 = float4;
struct alignas(8) Half4 {
  Half x, y, z, w;
};
__device__ __forceinline__ float magnitude(float x) { return fabsf(x); }
__device__ __forceinline__ float exact_root(float x) { return __fsqrt_rn(x); }
// Within two units in the last place, at a fraction of the instructions of the exact ones.
__device__ __forceinline__ float root(float x) {
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float quotient(float x, float y) { return __fdividef(x, y); }

}  // namespace embers::cuda
