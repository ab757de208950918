#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/harness/statistics.h"

namespace embers {

// Insertion of so many keys with Adam's slots, every fourth of which has a row already, beside an abseil map
// with slabs: both with huge pages, prefetch, and slots that are zero because the kernel's pages are. On one
// core and on two; in ours, another thread makes pages. Beforehand, the rows of a million keys are compared.
struct Insertion {
  nlohmann::json report;
  Estimate thrift;  // abseil's CPU seconds over ours, on one core or on two, whichever is less
  Estimate limit;   // there: over those of rows that are only copied into new memory
};
Insertion measure_insertion(uint32_t dim, uint64_t rows, size_t rounds);

// How long a single insertion of kFill rows of dim 16 with slots may take, by the clock, into memory that was
// touched before: percentiles of five fillings, each from an empty table to so many rows, while the other
// core is idle, and again while it is busy. Beside them: those of as many bare faults as there are huge pages
// in the table, and those of a thread that looks at the clock for as long.
struct InsertionLatency {
  nlohmann::json report;
  // The median filling's, idle or busy, whichever is worse; and beside it, as a limit, the clock's.
  std::pair<Estimate, Estimate> p9999_ms, longest_ms;
};
InsertionLatency measure_insertion_latency(uint64_t rows);

}  // namespace embers
