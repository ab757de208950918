#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <cstdlib>

#include "model/lookup/kernels/row_kernels.h"
#include "model/step.h"

namespace embers {
namespace {

// Only the dynamic linker knows whether OpenBLAS is behind libtorch's BLAS.
template <class Function>
Function* openblas(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

std::string openblas_text(const char* name) {
  const auto function = openblas<char*()>(name);
  return function == nullptr ? "unknown" : function();
}

// "AVX512", from the line of libtorch's own report that tells which of its kernels run.
std::string vector_capability() {
  const std::string report = at::show_config();
  const std::string label = "CPU capability usage: ";
  const size_t at = report.find(label);
  if (at == std::string::npos) return "unknown";
  const size_t begin = at + label.size();
  return report.substr(begin, report.find('\n', begin) - begin);
}

// The lines that do not change while a process runs. Made once: openblas_get_config() always writes into the
// same buffer, so two threads at once would get a mixture.
struct Constant {
  bool fast = openblas<char*()>("openblas_get_config") != nullptr;
  std::string blas = fast ? openblas_text("openblas_get_config") : "reference";
  std::string core = openblas_text("openblas_get_corename");
  std::string vector = vector_capability();
};

// Which of its kernels with AVX OpenBLAS could use here; "" where those that it has chosen will do.
const char* better_core(const std::string& core) {
#if defined(__x86_64__)
  for (const char* modern : {"Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "Sapphirerapids"})
    if (core == modern) return "";
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return "";
  for (const bool missing : {!__builtin_cpu_supports("avx512f"), !__builtin_cpu_supports("avx512bw"),
                             !__builtin_cpu_supports("avx512dq"), !__builtin_cpu_supports("avx512vl")})
    if (missing) return "Haswell";
  return "SkylakeX";
#else
  static_cast<void>(core);
  return "";
#endif
}

}  // namespace

void choose_blas_core() {
  const char* const variable = "OPENBLAS_CORETYPE";
  const auto init = openblas<void()>("gotoblas_dynamic_init"),
             quit = openblas<void()>("gotoblas_dynamic_quit");
  if (init == nullptr || quit == nullptr || std::getenv(variable) != nullptr) return;
  const std::string better = better_core(openblas_text("openblas_get_corename"));
  if (better.empty()) return;
  setenv(variable, better.c_str(), 1);
  quit();
  init();
}

void set_threads(uint32_t threads) {
  const int count = static_cast<int>(threads);
  at::set_num_threads(count);
  if (const auto set = openblas<void(int)>("openblas_set_num_threads")) set(count);
}

std::vector<std::string> numeric_settings(uint32_t threads, std::string* warning) {
  static const Constant constant;
  if (!constant.fast && warning != nullptr)
    *warning =
        "libtorch uses a BLAS other than OpenBLAS, which may make it 30 times slower: install "
        "libopenblas0-pthread";
  return {fmt::format("threads={}", threads),         fmt::format("blas={}", constant.blas),
          fmt::format("blas_core={}", constant.core), fmt::format("libtorch={}", TORCH_VERSION),
          fmt::format("vector={}", constant.vector),  fmt::format("rows={}", row_kernels().instructions)};
}

}  // namespace embers
