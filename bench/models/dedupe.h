#pragma once

#include <nlohmann/json.hpp>

#include "bench/harness/statistics.h"

namespace embers {

// M ids a second through the index of unique keys: 26 columns of 4096 Zipf ids of 10 000 rows, on one thread.
// In turns with it, as the limit, the same ids through nothing but their hash, one load and store where it
// leads, and the store of a place.
struct Dedupe {
  nlohmann::json report;
  Estimate mids, limit_mids, of_limit;
};
Dedupe measure_dedupe(size_t rounds);

}  // namespace embers
