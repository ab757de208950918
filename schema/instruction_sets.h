#pragma once

// For functions that are loops over floats: compiled for AVX-512, AVX2 and what every machine has, chosen
// when the program starts. Results are the same bits: the folder is compiled without contraction
// (CMakeLists.txt). Not under ThreadSanitizer, which is not ready when the choice is made.
//
// What such a function calls must be EMBERS_INLINE: the compiler makes its copies after it has inlined what is
// always inlined, and then takes functions compiled for another architecture for calls.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define EMBERS_INSTRUCTION_SETS [[gnu::target_clones("arch=skylake-avx512", "avx2", "default")]]
#else
#define EMBERS_INSTRUCTION_SETS
#endif
#define EMBERS_INLINE [[gnu::always_inline]] inline

// For functions that only run where has_avx512() says so. Those without it that they call are inlined.
#if defined(__x86_64__) && defined(__GNUC__)
#define EMBERS_AVX512 [[gnu::target("avx512f,avx512bw,bmi,bmi2")]]

namespace embers {

inline bool has_avx512() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

}  // namespace embers
#endif
