#pragma once

// For functions that are loops over floats: compiled for AVX-512, AVX2 and what every machine has, chosen
// when the program starts. The results are the same to the bit: the folder is compiled without contraction
// (CMakeLists.txt). Not under ThreadSanitizer, which is not ready when the choice is made.
//
// AVX-512 is selected by its level, not by a processor's name: with a name, the copy would be chosen on that
// very processor only, and what it calls would not be inlined.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define EMBERS_INSTRUCTION_SETS [[gnu::target_clones("arch=x86-64-v4", "avx2", "default")]]
#else
#define EMBERS_INSTRUCTION_SETS
#endif
#define EMBERS_INLINE [[gnu::always_inline]] inline

// For functions that are called only where has_avx512() is true. Where the macro is not defined, there are
// none.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EMBERS_AVX512 [[gnu::target("arch=x86-64-v4")]]
#endif

namespace embers {

inline bool has_avx512() {
#if defined(EMBERS_AVX512)
  return __builtin_cpu_supports("x86-64-v4");
#else
  return false;
#endif
}

}  // namespace embers
