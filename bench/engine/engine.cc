// embers bench engine: the in-memory store compared with the machine's limits, on one thread.
//
// Minibatches of 4096 keys (repeats left out) of a table with Adam's slots, 2048 of them; dim 16, 64, 128;
// keys uniform, or Zipf with exponent 1.05; keys are shuffled over the rows.
//   pull    find the rows and copy them out; floor: copy as many rows from known places
//   push    apply Adam to rows that were pulled three minibatches before; floor: read and write row, m and v
//           at known places, after copies of the same rows. Pushes without a pull are reported, too
//   insert  find or create, copy first values; peer: an abseil map with slabs, huge pages and prefetch
// Floors touch the same bytes of the same memory, and of a pull one random cache line a key for the index,
// prefetched; the best of seven prefetch distances, into either of two caches, counts. Pull and push count
// CPU seconds of the thread, insertion also those of the thread that makes pages. Then: the longest
// insertions by the clock, memory beyond the floats, rows kept as halves, removed rows whose places are used
// again, pulls from 1 M to 100 M rows, and two threads with a table each, compared with one.
//
//   engine.pull_vs_floor, engine.pull_vs_floor.dim_16   floor's time over ours, the least over distributions,
//                            and over dims 64 and 128
//   engine.push_vs_floor     the least over dims and distributions
//   engine.insert_vs_absl    abseil's CPU seconds over ours, the least over dims, on one core and on two
//   engine.insertion_p9999_ms, engine.longest_insertion_ms   of 64 rows of dim 16, the median of five
//   fillings
//                            while the other core is idle or busy, whichever is worse
//   engine.overhead_bytes    of a row beyond its floats, by the kernel's account, at the worst of eight sizes
//   engine.scale_100m        pull_vs_floor with 100 M rows, the less of dim 4 and 16
//   engine.two_shards        rows a second of two threads over those of one
#include <algorithm>

#include "bench/engine/formats.h"
#include "bench/engine/insert.h"
#include "bench/engine/memory.h"
#include "bench/engine/pull_push.h"
#include "bench/engine/table.h"
#include "bench/harness/bench.h"

namespace embers {
namespace {

using Json = nlohmann::json;

struct Sizes {
  uint64_t rows;
  size_t minibatches, rounds;
  std::vector<uint64_t> scale;
  uint64_t overhead_step;  // 7 to 14 times
};
const Sizes kFull{10'000'000, 2048, 5, {1'000'000, 10'000'000, 100'000'000}, 1'000'000};
const Sizes kQuick{300'000, 64, 3, {100'000, 1'000'000}, 100'000};

// What the largest table takes, with the lists of its places, of keys and of the floor's index.
uint64_t memory_for(const Sizes& sizes) {
  const auto with_lists = [&](uint64_t rows, uint32_t dim, bool slots) {
    return table_bytes(rows, dim, slots) + rows * 24 + sizes.minibatches * kBatch * 40;
  };
  return std::max(with_lists(sizes.rows, 128, true), with_lists(sizes.scale.back(), 16, false));
}

void measure_grid(const Sizes& sizes, Json& report) {
  fmt::print(
      "ns a key                     pull   floor share       push   floor share  without pull\n dim       "
      "rows     keys\n");
  std::vector<Estimate> pull_16, pull, push;
  for (const uint32_t dim : {16, 64, 128}) {
    Engine engine(dim, true);
    engine.fill(sizes.rows);
    for (const bool zipf : {false, true}) {
      const PullPush point = measure_pull_push(engine, {dim, zipf, true}, sizes.minibatches, sizes.rounds);
      report["grid"].push_back(point.report);
      (dim == 16 ? pull_16 : pull).push_back(point.pull_vs_floor);
      push.push_back(point.push_vs_floor);
      const std::string where = fmt::format("dim {}, {}", dim, zipf ? "zipf" : "uniform");
      report["limits"].push_back(limit("engine.pull, " + where, point.pull_vs_floor));
      report["limits"].push_back(limit("engine.push, " + where, point.push_vs_floor));
    }
  }
  report["targets"].push_back(target("engine.pull_vs_floor", least(pull), 0.8));
  report["targets"].push_back(target("engine.pull_vs_floor.dim_16", least(pull_16), 0.7));
  report["targets"].push_back(target("engine.push_vs_floor", least(push), 0.85));
}

// Pulls from ever larger tables, without slots.
void measure_scale(const Sizes& sizes, Json& report) {
  std::vector<Estimate> largest;
  for (const uint32_t dim : {4, 16}) {
    Engine engine(dim, false);
    for (const uint64_t rows : sizes.scale) {
      engine.fill(rows);
      const PullPush point = measure_pull_push(engine, {dim, false, false}, sizes.minibatches, sizes.rounds);
      report["scale"].push_back(point.report);
      report["limits"].push_back(
          limit(fmt::format("engine.pull, dim {}, {} rows", dim, rows), point.pull_vs_floor));
      if (rows == sizes.scale.back()) largest.push_back(point.pull_vs_floor);
    }
  }
  report["targets"].push_back(target("engine.scale_100m", least(largest), 0.7));
}

void measure_insertions(const Sizes& sizes, Json& report) {
  std::vector<Insertion> insertions;
  for (const uint32_t dim : {16, 64, 128}) {
    insertions.push_back(measure_insertion(dim, sizes.rows / 2, sizes.rounds));
    report["insert"].push_back(insertions.back().report);
  }
  const Insertion& worst = *std::min_element(
      insertions.begin(), insertions.end(),
      [](const Insertion& a, const Insertion& b) { return a.thrift.value < b.thrift.value; });
  const InsertionLatency latency = measure_insertion_latency(sizes.rows);
  report["insertion_latency"] = latency.report;
  report["targets"].push_back(target("engine.insert_vs_absl", worst.thrift, 1.15, worst.limit));
  report["targets"].push_back(
      target_at_most("engine.insertion_p9999_ms", latency.p9999_ms.first, 1, latency.p9999_ms.second));
  report["targets"].push_back(
      target_at_most("engine.longest_insertion_ms", latency.longest_ms.first, 5, latency.longest_ms.second));
}

}  // namespace

int bench_engine(const BenchOptions& options) {
  const Sizes& sizes = options.quick ? kQuick : kFull;
  Json report = begin_report("engine", options, options.quick ? "quick" : "");
  need_memory(memory_for(sizes), "embers bench engine", "--quick takes 1 GiB");
  measure_grid(sizes, report);
  measure_insertions(sizes, report);
  std::vector<uint64_t> filled;
  for (uint64_t i = 7; i <= 14; ++i) filled.push_back(i * sizes.overhead_step);
  const Overhead overhead = measure_overhead(filled);
  report["overhead"] = overhead.report;
  report["overhead_bytes"] = overhead.most_bytes;
  report["targets"].push_back(target_at_most("engine.overhead_bytes", overhead.most_bytes, 22));
  measure_scale(sizes, report);
  report["formats"] = measure_formats(sizes.rows / 10, sizes.rounds);
  report["reuse"] = measure_reuse(16, sizes.rows / 2);
  report["targets"].push_back(
      target("engine.two_shards", measure_two_shards(sizes.rows / 5, sizes.rounds), 1.6));
  return end_report(report, options);
}

}  // namespace embers
