#include "model/lookup/kernels/row_kernels.h"

#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/errors.h"

namespace embers {
namespace {

// Those that this machine runs, the fastest first.
std::vector<const RowKernels*> runnable() {
  std::vector<const RowKernels*> kernels;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
      kernels.push_back(&kAvx512RowKernels);
    kernels.push_back(&kAvx2RowKernels);
  }
#endif
  kernels.push_back(&kPortableRowKernels);
  return kernels;
}

}  // namespace

const RowKernels& choose_row_kernels(const char* wanted) {
  const std::vector<const RowKernels*> kernels = runnable();
  if (wanted == nullptr || *wanted == '\0') return *kernels.front();
  std::vector<std::string_view> names;
  for (const RowKernels* each : kernels) {
    if (std::string_view(each->instructions) == wanted) return *each;
    names.push_back(each->instructions);
  }
  fail(ErrorCode::kInvalid, "the environment variable EMBERS_ROW_KERNELS is '{}', but this machine runs: {}",
       wanted, fmt::join(names, ", "));
}

const RowKernels& row_kernels() {
  static const RowKernels& kernels = choose_row_kernels(std::getenv("EMBERS_ROW_KERNELS"));
  return kernels;
}

}  // namespace embers
