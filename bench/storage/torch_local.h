#pragma once

#include <string>
#include <vector>

namespace embers {

// torch local in C++ (bench/peers/local_rows.h), a child of harness/child.h: `torch-local ROWS`. Lines:
// "train SECONDS DEPTH THREADS index_select|prefetching uniform|zipf" -> rows/s; "check FIRST", "lap N" and
// "replayed" -> numbers (bench/wire/checked_rows.h, bench/wire/replay.h).
void serve_torch_local(const std::vector<std::string>& words);

}  // namespace embers
