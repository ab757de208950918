#include "bench/engine/memory.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>
#include <utility>

#include "bench/engine/table.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/machine.h"
#include "storage/memory/memory_table.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kDim = 16;

// Once little has changed for a while: a thread makes pages ahead. A sanitizer's own memory never rests, so
// not for ever.
uint64_t settled_memory() {
  constexpr uint64_t kLittle = 64 << 10;  // bytes
  uint64_t before = 0, now = resident_memory();
  for (int i = 0; i < 100 && std::max(now, before) - std::min(now, before) > kLittle; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    before = std::exchange(now, resident_memory());
  }
  return now;
}

}  // namespace

void fill_engine(const std::string& dim) {
  Engine engine(static_cast<uint32_t>(std::stoul(dim)), true);
  answer_lines("", [&](const std::string& line) {
    engine.fill(std::stoull(line));
    return fmt::format("{} {}", settled_memory(), engine.store->resident_bytes());
  });
}

Overhead measure_overhead(const std::vector<uint64_t>& sizes) {
  BenchChild process = BenchChild::part({"engine-fill", std::to_string(kDim)});
  const auto memory_at = [&](uint64_t rows) {
    std::istringstream answer(process.ask(std::to_string(rows)));
    std::pair<uint64_t, uint64_t> bytes;
    answer >> bytes.first >> bytes.second;
    return bytes;
  };
  memory_at(kFill);  // with it come buffers and threads that no row is to blame for
  const uint64_t before = memory_at(2 * kFill).first;
  Overhead result{Json::array(), 0};
  for (const uint64_t rows : sizes) {
    const auto [resident, said] = memory_at(rows);
    const auto beyond = [&](uint64_t bytes) {
      return static_cast<double>(bytes) / static_cast<double>(rows) - 12.0 * kDim;
    };
    result.report.push_back({{"rows", rows},
                             {"bytes_per_row", beyond(resident - before)},
                             {"reported_bytes_per_row", beyond(said)}});
    result.most_bytes = std::max(result.most_bytes, beyond(resident - before));
    fmt::print("{} rows: {:.1f} bytes a row beyond its floats ({:.1f} by the store's own account)\n", rows,
               beyond(resident - before), beyond(said));
  }
  std::fflush(stdout);
  return result;
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
