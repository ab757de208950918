#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace embers {

// What the figures of a report depend on: cpu, cores that this process may use, caches and memory in bytes,
// huge pages, kernel and system, compiler, and the load of the last minute, which tells whether other
// programs were at work. What cannot be found out is an empty string or 0.
nlohmann::json machine();

// Bytes that programs may still take without anything being swapped out (MemAvailable).
uint64_t available_memory();
// What this process has in memory.
uint64_t resident_memory();

}  // namespace embers
