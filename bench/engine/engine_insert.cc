#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "bench/engine/engine_table.h"
#include "bench/harness/bench.h"
#include "storage/memory/memory_table.h"
#include "storage/memory/pages.h"

namespace embers {
namespace {

using Json = nlohmann::json;

// Makes the kernel hand out this much memory, and gives it back, so that the time a hypervisor takes to find
// it counts for neither side.
void warm_memory(uint64_t bytes) {
  const storage::Pages pages(bytes, true);
  for (size_t at = 0; at < pages.size(); at += storage::kHugePage) pages.data()[at] = std::byte{1};
}
uint64_t bytes_of(uint64_t rows, uint32_t dim) { return rows * (12 * uint64_t{dim} + 64); }

// What a user could build from a well-maintained map in a day: the peer of insertion.
class AbseilTable {
 public:
  explicit AbseilTable(uint32_t dim) : dim_(dim), rows_per_slab_(storage::kHugePage / (12 * size_t{dim})) {}
  void add_if_absent(std::span<const int64_t> keys, std::span<const float> values) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + kAhead < keys.size()) rows_.prefetch(keys[i + kAhead]);
      const auto [at, added] = rows_.try_emplace(keys[i], static_cast<uint32_t>(rows_.size()));
      if (!added) continue;
      float* row = append();
      std::memcpy(row, &values[i * dim_], dim_ * sizeof(float));
      std::memset(row + dim_, 0, 2 * dim_ * sizeof(float));
    }
  }

 private:
  float* append() {
    const size_t row = rows_.size() - 1;
    if (row == slabs_.size() * rows_per_slab_) slabs_.emplace_back(storage::kHugePage, true);
    return reinterpret_cast<float*>(slabs_.back().data()) + row % rows_per_slab_ * 3 * dim_;
  }

  size_t dim_;
  size_t rows_per_slab_;
  absl::flat_hash_map<int64_t, uint32_t> rows_;
  std::vector<storage::Pages> slabs_;
};

// Rows/s of inserting `rows` keys, every fourth of which is asked for again; by the clock, since in ours
// another thread makes pages.
double insert_rate(uint64_t rows, const std::function<void(std::span<const int64_t>)>& add) {
  std::vector<int64_t> keys;
  const auto begin = BenchClock::now();
  for (uint64_t n = 0; n < rows; n += kBatch) {
    keys.clear();
    for (uint64_t i = 0; i < kBatch; ++i) keys.push_back(key_of(i % 4 == 3 ? n / 2 + i : n + i));
    add(keys);
  }
  return static_cast<double>(rows) / seconds_since(begin);
}

}  // namespace

Json measure_insert(uint32_t dim, uint64_t rows, int rounds) {
  const std::vector<float> values(kBatch * dim, 0.5f);
  double ours = 0, abseil = 0;
  for (int r = 0; r < rounds; ++r) {
    warm_memory(bytes_of(rows, dim));
    {
      Engine engine(dim, 0, true);
      ours = std::max(
          ours, insert_rate(rows, [&](auto keys) { engine.store->add_if_absent(0, view(keys), values); }));
    }
    warm_memory(bytes_of(rows, dim));
    AbseilTable table(dim);
    abseil = std::max(abseil, insert_rate(rows, [&](auto keys) { table.add_if_absent(keys, values); }));
  }
  fmt::print("insert, dim {:>3}, {} rows: {:.2f} M rows/s, abseil {:.2f}: {:.2f}\n", dim, rows, ours / 1e6,
             abseil / 1e6, ours / abseil);
  return {{"dim", dim},
          {"rows", rows},
          {"rows_per_s", ours},
          {"abseil_rows_per_s", abseil},
          {"ratio", ours / abseil}};
}

std::pair<double, double> page_seconds() {
  std::vector<storage::Pages> pages;
  std::vector<double> seconds;
  for (int i = 0; i < 256; ++i) {
    pages.emplace_back(storage::kHugePage, true);
    const double begin = cpu_seconds();
    pages.back().data()[0] = std::byte{1};
    seconds.push_back(cpu_seconds() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.back()};
}

LongestInsertion longest_into_warm_memory(uint64_t rows) {
  LongestInsertion longest;
  std::vector<double> least;
  for (int i = 0; i < 5; ++i) {
    warm_memory(bytes_of(rows, 16));
    const std::vector<double> seconds = std::move(Engine(16, rows, true).insert_seconds);
    longest.each.push_back(1e3 * std::ranges::max(seconds));
    least.resize(seconds.size(), INFINITY);
    std::ranges::transform(least, seconds, least.begin(), [](double a, double b) { return std::min(a, b); });
  }
  longest.least = 1e3 * std::ranges::max(least);
  return longest;
}

Json measure_reuse(uint32_t dim, uint64_t rows) {
  TableSpec spec;
  spec.name = "bench";
  spec.dim = dim;
  storage::MemoryTable table(spec, std::vector<float>(2 * size_t{dim}));
  const std::vector<float> values(kBatch * dim, 0.5f);
  std::vector<int64_t> keys;
  // Calls `call` with the keys of every `stride`-th number of [begin, end), kBatch at a time. Returns rows a
  // second.
  const auto each = [&](uint64_t begin, uint64_t end, uint64_t stride, const auto& call) {
    const auto start = BenchClock::now();
    uint64_t count = 0;
    for (uint64_t n = begin; n < end;) {
      for (keys.clear(); keys.size() < kBatch && n < end; n += stride) keys.push_back(key_of(n));
      count += keys.size();
      call(view(keys));
    }
    return static_cast<double>(count) / seconds_since(start);
  };
  const auto insert = [&](KeysView some) {
    table.add_if_absent(some, std::span(values).first(some.size() * dim), {});
  };
  each(0, rows, 1, insert);
  const uint64_t before = table.resident_bytes();
  size_t removed = 0;
  const double remove_rate = each(0, rows, 4, [&](KeysView some) { removed += table.remove(some); });
  const double insert_rate = each(rows, rows + removed, 1, insert);
  const uint64_t after = table.resident_bytes();
  fmt::print(
      "removing {} of {} rows: {:.2f} M rows/s, inserting as many others {:.2f}; {} MiB before, {} after\n",
      removed, rows, remove_rate / 1e6, insert_rate / 1e6, before >> 20, after >> 20);
  return {{"dim", dim},
          {"rows", rows},
          {"removed", removed},
          {"rows_after", table.rows()},
          {"removed_rows_per_s", remove_rate},
          {"inserted_rows_per_s", insert_rate},
          {"bytes_before", before},
          {"bytes_after", after}};
}

}  // namespace embers
