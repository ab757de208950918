#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace embers {

// The memory that rows of dim 16 with Adam's slots take beyond their floats, as the kernel counts what the
// process has in memory (RSS), at each of these numbers of rows of a table that grows; in a process of its
// own.
struct Overhead {
  nlohmann::json report;
  double most_bytes;  // a row
};
Overhead measure_overhead(const std::vector<uint64_t>& rows);
// That process, the part "engine-fill DIM": answers a number of rows, up to which it fills its table, with
// the bytes that it then has in memory, and those that the table says it holds.
void fill_engine(const std::string& dim);

// Rows/s of removing every fourth row and of inserting as many others, and the bytes of the table before and
// after: the places are used again.
nlohmann::json measure_reuse(uint32_t dim, uint64_t rows);

}  // namespace embers
