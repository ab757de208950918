#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include "cuda/lanes.h"

// Memory and launches: the only file with calls of CUDA's runtime. Without nvcc, kernels run on the CPU
// (cpu/lanes.h) and device memory is the process's.
#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <tuple>
#else
#include <cstdlib>
#include <cstring>
#endif

namespace embers::cuda {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Shape {
  int blocks;
  int threads;
  size_t shared_bytes;
};

#if defined(__CUDACC__)

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw Error(std::string(what) + ": " + cudaGetErrorString(status));
}

inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "no GPU");
  return device;
}

// Makes a device the current one, and afterwards the one that was before.
class OnDevice {
 public:
  explicit OnDevice(int device) : before_(current_device()) {
    if (device != before_) check(cudaSetDevice(device), "the GPU");
  }
  ~OnDevice() { cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
};

inline int processors() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, current_device()),
        "the GPU's processors");
  return count;
}

// So many pieces of a table that a block of a sort adds up for itself (sort.h).
inline int few_pieces() { return 64; }

inline void* allocate(size_t bytes) {
  void* at = nullptr;
  const std::string what = "allocating " + std::to_string(bytes) + " bytes on the device";
  if (bytes > 0) check(cudaMalloc(&at, bytes), what.c_str());
  return at;
}
inline void release(void* at) { cudaFree(at); }
inline void copy(void* to, const void* from, size_t bytes, void* stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)), "copying");
}
inline void zero(void* at, size_t bytes, void* stream) {
  check(cudaMemsetAsync(at, 0, bytes, static_cast<cudaStream_t>(stream)), "clearing");
}
inline void wait(void* stream) {
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "the device");
}
// A number on the host that kernels can write.
inline int* allocate_flag() {
  void* at = nullptr;
  check(cudaHostAlloc(&at, sizeof(int), cudaHostAllocMapped), "allocating on the host");
  *static_cast<int*>(at) = 0;
  return static_cast<int*>(at);
}
inline void release_flag(int* flag) { cudaFreeHost(flag); }

// How many blocks of a kernel run on a processor at once; 0: not even one. Asks the runtime once for each
// kernel and device.
template <class Task>
int blocks_of_a_processor(void (*kernel)(Task), int threads, size_t shared_bytes) {
  static std::mutex mutex;
  static std::map<std::tuple<int, const void*, size_t>, int> known;
  const auto* const function = reinterpret_cast<const void*>(kernel);
  const int device = current_device();
  const std::lock_guard lock(mutex);
  const std::tuple key{device, function, shared_bytes};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (shared_bytes > 48 << 10) {
    int most = 0;
    check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory");
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, most), "shared memory");
  }
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, shared_bytes),
        "a kernel's occupancy");
  return known[key] = blocks;
}

// How many run at once on the device.
template <class Task>
int blocks_at_once(void (*kernel)(Task), int threads, size_t shared_bytes) {
  const int each = blocks_of_a_processor(kernel, threads, shared_bytes);
  if (each == 0) throw Error("a kernel does not fit the device");
  return each * processors();
}

template <class Task>
void launch(void (*kernel)(Task), const Shape& shape, bool cooperative, void* stream, Task task,
            const char* what) {
  void* arguments[] = {&task};
  const auto* const function = reinterpret_cast<const void*>(kernel);
  const auto queue = static_cast<cudaStream_t>(stream);
  const dim3 blocks(static_cast<unsigned>(shape.blocks)), threads(static_cast<unsigned>(shape.threads));
  check(cooperative
            ? cudaLaunchCooperativeKernel(function, blocks, threads, arguments, shape.shared_bytes, queue)
            : cudaLaunchKernel(function, blocks, threads, arguments, shape.shared_bytes, queue),
        what);
}

#else

inline int current_device() { return 0; }
struct OnDevice {
  explicit OnDevice(int) {}
};
inline int processors() { return 3; }
inline int few_pieces() { return 1; }  // so that tests see either way
inline void* allocate(size_t bytes) { return std::malloc(bytes + 1); }
inline void release(void* at) { std::free(at); }
inline void copy(void* to, const void* from, size_t bytes, void*) { std::memcpy(to, from, bytes); }
inline void zero(void* at, size_t bytes, void*) { std::memset(at, 0, bytes); }
inline void wait(void*) {}
inline int* allocate_flag() { return new int(0); }
inline void release_flag(int* flag) { delete flag; }
template <class Task>
int blocks_of_a_processor(void (*)(Task), int, size_t) {
  return 32;
}
template <class Task>
int blocks_at_once(void (*)(Task), int, size_t) {
  return processors();
}
template <class Task>
void launch(void (*kernel)(Task), const Shape& shape, bool cooperative, void*, Task task, const char*) {
  cpu::Grid grid;
  grid.blocks = shape.blocks;
  grid.threads = shape.threads;
  grid.shared_bytes = shape.shared_bytes;
  grid.cooperative = cooperative;
  grid.seed = cpu::next_seed();
  cpu::run(grid, [&] { kernel(task); });
}

#endif

struct Release {
  void operator()(void* at) const { release(at); }
};
using Memory = std::unique_ptr<void, Release>;
inline Memory memory(size_t bytes) { return Memory(allocate(bytes)); }

}  // namespace embers::cuda
