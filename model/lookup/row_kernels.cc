#include "model/lookup/row_kernels.h"

namespace embers {
namespace {

const RowKernels& fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return kAvx512RowKernels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2RowKernels;
#endif
  return kPortableRowKernels;
}

}  // namespace

const RowKernels& row_kernels() {
  static const RowKernels& chosen = fastest();
  return chosen;
}

}  // namespace embers
