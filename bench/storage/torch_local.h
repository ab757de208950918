#pragma once

#include <string>
#include <vector>

namespace embers {

// torch local in C++ (bench/peers/local_rows.h), a child of harness/child.h: `torch-local ROWS`. Lines:
// "train SECONDS DEPTH THREADS fused uniform|zipf" -> rows/s; "check FIRST" -> numbers
// (bench/wire/checked_rows.h).
void serve_torch_local(const std::vector<std::string>& words);

}  // namespace embers
