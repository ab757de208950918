#pragma once

#include <string>
#include <vector>

namespace embers {

// Runs a process of a benchmark (harness/child.h) to its end.
int bench_part(const std::vector<std::string>& words);

}  // namespace embers
