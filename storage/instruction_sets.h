#pragma once

// For functions that are loops over floats: compiled for AVX-512, AVX2 and what every machine has, chosen
// when the program starts. Results are the same bits: the folder is compiled without contraction
// (CMakeLists.txt).
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EMBERS_INSTRUCTION_SETS [[gnu::target_clones("arch=skylake-avx512", "avx2", "default")]]
#else
#define EMBERS_INSTRUCTION_SETS
#endif
