#pragma once

#include <string>
#include <vector>

#include "bench/harness/child.h"

namespace embers {

// Python processes of `embers bench python`.

// Writes the scripts to `dir`. kInvalid if Python lacks the package, torch or NumPy, naming what is missing.
void prepare_python(const std::string& dir);

// `python3 DIR/SCRIPT WORDS...`, with so many threads for OpenMP and OpenBLAS, and with malloc told to keep
// its memory, as processes of embers do; EMBERS_MASTER says where the job is.
BenchChild run_python(const std::string& dir, const std::string& script,
                      const std::vector<std::string>& words, int threads, const std::string& master);

}  // namespace embers
