// embers bench engine: the in-memory store compared with the machine's limits, on one thread.
//
// Minibatches of 4096 keys (repeats left out) of a table with Adam's slots; dim 16, 64, 128; keys uniform, or
// Zipf with exponent 1.05.
//   pull    find the rows and copy them out; floor: copy as many rows from known places
//   push    find the rows and apply Adam; floor: read and write row, m and v at known places
//   insert  find or create, copy first values, set slots; peer: an abseil map with slabs, huge pages and
//   prefetch
// Floors touch the same bytes of the same memory, and one random cache line a key for the index, prefetched.
// Keys are shuffled over the rows. The sides take turns, a block of minibatches at a time; a side's best time
// counts. Then: bytes a row beyond its floats, the longest insertion, rows kept as halves, removed rows whose
// places are used again, how the share of the floor changes with size, and two threads with a table each,
// compared with one.
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "base/floats/prefetch.h"
#include "bench/engine/engine_table.h"
#include "bench/harness/bench.h"
#include "storage/apply.h"
#include "storage/memory/pages.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kMinibatches = 64;  // whose index lines differ in the floors
constexpr size_t kLine = 16;         // floats

EMBERS_PREFETCHES void prefetch_floats(const float* at, size_t floats) {
  for (size_t f = 0; f < floats; f += kLine) __builtin_prefetch(at + f);
}

// As many random cache lines as there are keys, from an array as large as an index.
class IndexLines {
 public:
  explicit IndexLines(uint64_t rows) : pages_(rows * 16 + storage::kHugePage, true) {
    std::memset(pages_.data(), 1, pages_.size());
    std::mt19937_64 random(3);
    for (uint32_t& line : lines_) line = static_cast<uint32_t>(random() % (pages_.size() / 64));
  }
  const std::byte* line(size_t i) const { return pages_.data() + size_t{lines_[i % lines_.size()]} * 64; }

 private:
  storage::Pages pages_;
  std::vector<uint32_t> lines_ = std::vector<uint32_t>(kBatch * kMinibatches);
};

// Both floors: prefetch the index line, then the row, then use both.
template <class Use>
void touch(const std::vector<float*>& places, const IndexLines& index, size_t first, size_t floats,
           const Use& use) {
  for (size_t i = 0; i < places.size() + kAhead; ++i) {
    if (i + kAhead < places.size()) __builtin_prefetch(index.line(first + i + kAhead));
    if (i < places.size()) prefetch_floats(places[i], floats);
    if (i >= kAhead) use(i - kAhead, static_cast<float>(*index.line(first + i - kAhead)));
  }
}

struct Point {
  uint32_t dim;
  uint64_t rows;
  bool zipf;
};

void time_best(double& best, const std::function<void()>& run) {
  const double begin = cpu_seconds();
  run();
  best = std::min(best, cpu_seconds() - begin);
}

using Minibatches = std::span<const std::vector<int64_t>>;

// Pulls every minibatch; `out` and `found` have room for one.
void pull_all(Engine& engine, Minibatches batches, std::span<float> out, std::span<uint8_t> found) {
  for (const auto& batch : batches)
    engine.store->gather(0, view(batch), out.first(batch.size() * engine.dim), found.first(batch.size()));
}

// Pushes every minibatch, each as the next step.
void push_all(Engine& engine, Minibatches batches, std::span<const float> grads, uint64_t& step) {
  for (const auto& batch : batches)
    storage::apply(*engine.store, 0, *engine.adam, {++step, 1e-6}, view(batch),
                   grads.first(batch.size() * engine.dim));
}

Json measure(Engine& engine, const IndexLines& index, const Point& point, int rounds, bool push) {
  const auto batches = minibatches(point.rows, point.zipf);
  const auto places = engine.places(batches);
  const size_t dim = point.dim;
  size_t keys = 0;
  for (const auto& batch : batches) keys += batch.size();
  std::vector<float> out(kBatch * dim), grads(kBatch * dim, 0.01f);
  std::vector<uint8_t> found(kBatch);
  uint64_t step = 0;
  volatile float sink = 0;
  const auto pull = [&] { pull_all(engine, batches, out, found); };
  const auto pull_floor = [&] {
    float sum = 0;
    for (size_t b = 0; b < batches.size(); ++b)
      touch(places[b], index, b * kBatch, dim, [&](size_t i, float line) {
        std::memcpy(&out[i * dim], places[b][i], dim * sizeof(float));
        sum += line;
      });
    sink = sum;
  };
  const auto apply = [&] { push_all(engine, batches, grads, step); };
  const auto push_floor = [&] {
    for (size_t b = 0; b < batches.size(); ++b)
      touch(places[b], index, b * kBatch, 3 * dim, [&](size_t i, float line) {
        float* __restrict row = places[b][i];
        const float* __restrict grad = &grads[i * dim];
        for (size_t k = 0; k < dim; ++k) {
          row[dim + k] += (grad[k] - row[dim + k]) * 0.1f;
          row[2 * dim + k] += (grad[k] - row[2 * dim + k]) * line;
          row[k] -= 1e-6f * row[dim + k];
        }
      });
  };
  std::array<double, 4> best;
  best.fill(INFINITY);
  for (int r = 0; r < rounds; ++r) {
    time_best(best[0], pull);
    time_best(best[1], pull_floor);
    if (!push) continue;
    time_best(best[2], apply);
    time_best(best[3], push_floor);
  }
  const auto rate = [&](double s) { return static_cast<double>(keys) / s; };
  Json json{{"dim", dim},
            {"rows", point.rows},
            {"distribution", point.zipf ? "zipf" : "uniform"},
            {"pull_rows_per_s", rate(best[0])},
            {"pull_floor_rows_per_s", rate(best[1])},
            {"pull_vs_floor", best[1] / best[0]}};
  if (push) {
    json["push_rows_per_s"] = rate(best[2]);
    json["push_floor_rows_per_s"] = rate(best[3]);
    json["push_vs_floor"] = best[3] / best[2];
  }
  fmt::print("{:>4} {:>10} {:>8}   {:7.2f} {:7.2f} {:5.2f}", dim, point.rows, point.zipf ? "zipf" : "uniform",
             rate(best[0]) / 1e6, rate(best[1]) / 1e6, best[1] / best[0]);
  if (push)
    fmt::print("   {:7.2f} {:7.2f} {:5.2f}", rate(best[2]) / 1e6, rate(best[3]) / 1e6, best[3] / best[2]);
  fmt::print("\n");
  std::fflush(stdout);
  return json;
}

// Rows/s of pull and push where rows are kept as halves, rounded to nearest or stochastically, and bytes of a
// row with its slots and its part of the index.
Json measure_formats(uint64_t rows, int rounds) {
  constexpr uint32_t kDim = 64;
  const auto batches = minibatches(rows, false);
  std::vector<float> out(kBatch * kDim), grads(kBatch * kDim, 0.01f);
  std::vector<uint8_t> found(kBatch);
  Json all = Json::array();
  const auto measure_one = [&](NumberType type, Rounding rounding) {
    Engine engine(kDim, rows, true, type, rounding);
    uint64_t step = 0;
    size_t keys = 0;
    for (const auto& batch : batches) keys += batch.size();
    double pull = INFINITY, push = INFINITY;
    for (int r = 0; r < rounds; ++r) {
      time_best(pull, [&] { pull_all(engine, batches, out, found); });
      time_best(push, [&] { push_all(engine, batches, grads, step); });
    }
    const auto rate = [&](double s) { return static_cast<double>(keys) / s; };
    const double bytes = static_cast<double>(engine.store->resident_bytes()) / static_cast<double>(rows);
    fmt::print("{} rows, dim {}, rounded {}: pull {:.2f} M rows/s, push {:.2f}, {:.1f} bytes a row\n",
               name(type), kDim, name(rounding), rate(pull) / 1e6, rate(push) / 1e6, bytes);
    all.push_back({{"number_type", name(type)},
                   {"rounding", name(rounding)},
                   {"dim", kDim},
                   {"rows", rows},
                   {"pull_rows_per_s", rate(pull)},
                   {"push_rows_per_s", rate(push)},
                   {"bytes_per_row", bytes}});
  };
  measure_one(NumberType::kFloat32, Rounding::kNearest);
  for (const NumberType type : {NumberType::kFloat16, NumberType::kBfloat16})
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) measure_one(type, rounding);
  return all;
}

// Rows/s of push and pull by as many threads as there are engines.
double threads_rate(std::vector<Engine>& engines, Minibatches batches) {
  const size_t dim = engines.front().dim;
  std::vector<std::thread> threads;
  const auto begin = BenchClock::now();
  for (Engine& engine : engines)
    threads.emplace_back([&] {
      std::vector<float> out(kBatch * dim), grads(kBatch * dim, 0.01f);
      std::vector<uint8_t> found(kBatch);
      uint64_t step = 0;
      for (int round = 0; round < 4; ++round)
        for (const auto& batch : batches) {
          pull_all(engine, {&batch, 1}, out, found);
          push_all(engine, {&batch, 1}, grads, step);
        }
    });
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(engines.size()) / seconds_since(begin);
}

double two_shards(uint64_t rows, int rounds) {
  constexpr uint32_t kDim = 64;
  const auto batches = minibatches(rows, false);
  std::vector<Engine> one, two;
  one.emplace_back(kDim, rows, true);
  for (int i = 0; i < 2; ++i) two.emplace_back(kDim, rows, true);
  double best_one = 0, best_two = 0;
  for (int r = 0; r < rounds; ++r) {
    best_one = std::max(best_one, threads_rate(one, batches));
    best_two = std::max(best_two, threads_rate(two, batches));
  }
  return best_two / best_one;
}

uint64_t available_memory() {
  struct sysinfo info;
  return sysinfo(&info) == 0 ? (info.freeram + info.bufferram) * info.mem_unit : 0;
}

// At most `wanted` rows, and no more than fit into three quarters of the memory.
uint64_t rows_that_fit(uint64_t wanted, size_t floats) {
  const uint64_t bytes = floats * sizeof(float) + 64;
  return std::min(wanted, available_memory() / 4 * 3 / bytes);
}

// The share of the floor that pulls reach, with dim 4 and without slots.
double share_at(uint64_t rows, int rounds, Json& report) {
  Engine engine(4, rows, false);
  const IndexLines index(rows);
  report["scale"].push_back(measure(engine, index, {4, rows, false}, rounds, false));
  return report["scale"].back()["pull_vs_floor"].get<double>();
}

}  // namespace

int bench_engine(const BenchOptions& options) {
  Json report = begin_report("engine", options, options.quick ? "quick" : "");
  const int rounds = options.quick ? 3 : 7;
  const uint64_t wanted = options.quick ? 1'000'000 : 10'000'000;
  fmt::print(
      "M rows/s                   pull   floor share      push   floor share\n dim       rows     keys\n");
  double overhead = 0, longest = 0;
  for (const uint32_t dim : {16, 64, 128}) {
    const uint64_t rows = rows_that_fit(wanted, 3 * size_t{dim});
    Engine engine(dim, rows, true);
    const double bytes =
        static_cast<double>(engine.store->resident_bytes()) / static_cast<double>(rows) - 12.0 * dim;
    overhead = std::max(overhead, bytes);
    longest = std::max(longest, std::ranges::max(engine.insert_seconds));
    const IndexLines index(rows);
    for (const bool zipf : {false, true})
      report["grid"].push_back(measure(engine, index, {dim, rows, zipf}, rounds, true));
  }
  for (const uint32_t dim : {16, 64, 128})
    report["insert"].push_back(
        measure_insert(dim, rows_that_fit(wanted, 3 * size_t{dim}) / 2, options.quick ? 2 : 3));
  const LongestInsertion warm = longest_into_warm_memory(rows_that_fit(wanted, 3 * 16));
  report["longest_insertion_ms"] = {
      {"into_new_memory", longest * 1e3}, {"of_fillings", warm.each}, {"least", warm.least}};
  report["overhead_bytes"] = overhead;
  const auto [page, longest_page] = page_seconds();
  report["huge_page_s"] = {{"median", page}, {"longest", longest_page}};
  fmt::print(
      "longest insertion of {} rows: {:.2f} ms; into warm memory, in each of five fillings, {:.2f}; {:.2f} "
      "when each insertion counts with its fastest time (making a huge page: {:.2f}, at most {:.2f})\n"
      "{:.1f} bytes a row beyond its floats\n",
      kFill, longest * 1e3, fmt::join(warm.each, ", "), warm.least, page * 1e3, longest_page * 1e3, overhead);
  report["formats"] = measure_formats(rows_that_fit(wanted, 3 * 64) / 2, rounds);
  report["reuse"] = measure_reuse(16, rows_that_fit(wanted, 3 * 16) / 2);
  const double small = share_at(1'000'000, rounds, report);
  const double large = share_at(options.quick ? 10'000'000 : rows_that_fit(100'000'000, 4), rounds, report);
  const double shards = two_shards(options.quick ? 500'000 : 2'000'000, rounds);
  report["targets"] = {target("engine.pull_vs_floor", geometric_mean(report["grid"], "/pull_vs_floor"), 0.8),
                       target("engine.push_vs_floor", geometric_mean(report["grid"], "/push_vs_floor"), 0.8),
                       target("engine.insert_vs_absl", geometric_mean(report["insert"], "/ratio"), 1.25),
                       target_at_most("engine.overhead_bytes", overhead, 24),
                       target_at_most("engine.longest_insertion_ms", warm.least, 5),
                       target("engine.scale_100m", large / small, 0.9),
                       target("engine.two_shards", shards, 1.6)};
  return end_report(report, options);
}

}  // namespace embers
