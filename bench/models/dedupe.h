#pragma once

#include <nlohmann/json.hpp>

namespace embers {

// M ids a second: 26 columns of 4096 Zipf ids of 10 000 rows, and, as the limit, the same ids through nothing
// but their hash, one load and store where it leads, and the store of a place.
nlohmann::json measure_dedupe(int rounds);

}  // namespace embers
