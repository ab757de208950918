#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "bench/harness/statistics.h"

namespace embers {

// Pull and push of so many rows that are kept as float32 and as halves, rounded to nearest or stochastically,
// and the bytes of a row with its slots and its part of the index.
nlohmann::json measure_formats(uint64_t rows, size_t rounds);

// Rows/s of pull and push by two threads with a table each over those of one.
Estimate measure_two_shards(uint64_t rows, size_t rounds);

}  // namespace embers
