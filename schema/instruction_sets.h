#pragma once

// For functions that are loops over floats: compiled for AVX-512, AVX2 and what every machine has, chosen
// when the program starts. Results are the same bits: the folder is compiled without contraction
// (CMakeLists.txt). Not under ThreadSanitizer, which is not ready when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define EMBERS_INSTRUCTION_SETS [[gnu::target_clones("arch=skylake-avx512", "avx2", "default")]]
#else
#define EMBERS_INSTRUCTION_SETS
#endif
