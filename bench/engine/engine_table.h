#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "storage/rows/store.h"
#include "storage/update_rules/update_rule.h"

// What embers bench engine measures with: tables of the in-memory store, and minibatches of their keys.
namespace embers {

inline constexpr size_t kBatch = 4096;
inline constexpr size_t kFill = 64;   // keys of an insertion that is timed
inline constexpr size_t kAhead = 16;  // rows

inline int64_t key_of(uint64_t number) { return static_cast<int64_t>(number * 0x9E3779B97F4A7C15); }
inline KeysView view(std::span<const int64_t> keys) { return {KeyKind::kInt64, keys, {}, {}}; }

// 64 minibatches of kBatch keys, repeats left out: key_of() of numbers of [0, rows), uniform or Zipf(1.05).
std::vector<std::vector<int64_t>> minibatches(uint64_t rows, bool zipf);

// CPU seconds of this thread: what other processes do meanwhile does not count, page faults do.
double cpu_seconds();

// A table with Adam's slots and rows 0 .. rows-1 of keys in a shuffled order.
struct Engine {
  Engine(uint32_t dim, uint64_t rows, bool slots, NumberType type = NumberType::kFloat32,
         Rounding rounding = Rounding::kNearest);
  // Where the row of each key is.
  std::vector<std::vector<float*>> places(const std::vector<std::vector<int64_t>>& batches);

  uint32_t dim;
  std::unique_ptr<const storage::UpdateRule> adam = storage::UpdateRule::make({"adam", {}});
  std::unique_ptr<storage::Store> store = storage::make_memory_store();
  std::vector<double> insert_seconds;  // of each call with kFill keys
};

// Measurements of insertion (engine_insert.cc), which are also printed.

// Rows/s of inserting this many rows, compared with an abseil map: `rows_per_s`, `abseil_rows_per_s`,
// `ratio`.
nlohmann::json measure_insert(uint32_t dim, uint64_t rows, int rounds);
// The longest insertion into memory that was touched before, in milliseconds. The same rows are filled in
// five times; `each` is the longest of each filling, `least` the longest when every insertion counts with its
// fastest time of the five: the cost of growth itself hits the same insertion each time, that of a hypervisor
// which has to find a page, or lets others run, does not.
struct LongestInsertion {
  std::vector<double> each;
  double least;
};
LongestInsertion longest_into_warm_memory(uint64_t rows);
// Rows/s of removing every fourth row and of inserting as many others, and the bytes of the table before and
// after: the places are used again.
nlohmann::json measure_reuse(uint32_t dim, uint64_t rows);
// Seconds that it takes to touch a huge page for the first time: median and longest of those of 512 MiB.
std::pair<double, double> page_seconds();

}  // namespace embers
