// embers bench engine: the in-memory store beside the machine's limits, on one thread.
//
// Minibatches of 4096 keys (repeats left out) of a table with Adam's slots; dim 16, 64, 128; keys uniform, or
// Zipf with exponent 1.05.
//   pull    find the rows and copy them out; floor: copy as many rows from known places
//   push    find the rows and apply Adam; floor: read and write row, m and v at known places
//   insert  find or create, copy first values, set slots; peer: an abseil map with slabs, huge pages and
//   prefetch
// Floors touch the same bytes of the same memory, and one random cache line a key for the index, prefetched.
// Keys are shuffled over the rows. The sides take turns, minibatch blocks at a time; a side's time is its
// best. Then: bytes a row beyond its floats, the longest insertion, how the share of the floor changes with
// size, and two threads with a table each beside one.
#include <absl/container/flat_hash_map.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <thread>

#include "apps/bench.h"
#include "schema/errors.h"
#include "storage/apply.h"
#include "storage/pages.h"
#include "storage/prefetch.h"
#include "storage/store.h"

namespace embers {
namespace {

using Json = nlohmann::json;
using storage::Optimizer;
using storage::Store;

constexpr size_t kBatch = 4096;
constexpr size_t kMinibatches = 64;  // of one timing
constexpr size_t kFill = 64;         // keys of an insertion that is timed
constexpr size_t kAhead = 16;        // rows
constexpr size_t kLine = 16;         // floats

int64_t key_of(uint64_t number) { return static_cast<int64_t>(number * 0x9E3779B97F4A7C15); }

// Numbers of [0, rows) with probabilities of k^-1.05, drawn by inverting the integral of that, and scattered.
class Numbers {
 public:
  Numbers(uint64_t rows, bool zipf) : rows_(rows), zipf_(zipf) {}
  uint64_t next() {
    if (!zipf_) return static_cast<uint64_t>(unit_(random_) * static_cast<double>(rows_));
    const double most = 1 - std::pow(static_cast<double>(rows_), -kExponent);
    const double rank = std::pow(1 - unit_(random_) * most, -1 / kExponent);
    return static_cast<uint64_t>(rank) * 2654435761 % rows_;
  }

 private:
  static constexpr double kExponent = 0.05;
  uint64_t rows_;
  bool zipf_;
  std::mt19937_64 random_{7};
  std::uniform_real_distribution<double> unit_{0, 1};
};

std::vector<std::vector<int64_t>> minibatches(uint64_t rows, bool zipf) {
  Numbers numbers(rows, zipf);
  std::vector<std::vector<int64_t>> all(kMinibatches);
  for (auto& keys : all) {
    for (size_t i = 0; i < kBatch; ++i) keys.push_back(key_of(numbers.next()));
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::shuffle(keys.begin(), keys.end(), std::mt19937_64(keys.size()));
  }
  return all;
}

KeysView view(std::span<const int64_t> keys) { return {KeyKind::kInt64, keys, {}, {}}; }

// CPU seconds of this thread: what other processes do meanwhile does not count, page faults do.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Makes the kernel hand out so much memory, and gives it back: what a hypervisor takes to find it is no
// side's.
void warm_memory(uint64_t bytes) {
  const storage::Pages pages(bytes, true);
  for (size_t at = 0; at < pages.size(); at += storage::kHugePage) pages.data()[at] = std::byte{1};
}
uint64_t bytes_of(uint64_t rows, uint32_t dim) { return rows * (12 * uint64_t{dim} + 64); }

// A table with Adam's slots and rows 0 .. rows-1 of keys in a shuffled order.
struct Engine {
  Engine(uint32_t dim, uint64_t rows, bool slots) : dim(dim) {
    TableSpec spec;
    spec.name = "bench";
    spec.dim = dim;
    store->add_table(spec, slots ? storage::slot_init(*adam, dim) : std::vector<float>());
    const std::vector<float> values(kFill * dim, 0.5f);
    std::vector<int64_t> keys;
    for (uint64_t begin = 0; begin < rows; begin += kFill) {
      keys.clear();
      for (uint64_t n = begin; n < std::min(rows, begin + kFill); ++n) keys.push_back(key_of(n));
      const double start = cpu_seconds();
      store->add_if_absent(0, view(keys), std::span(values).first(keys.size() * dim));
      longest_insert = std::max(longest_insert, cpu_seconds() - start);
    }
  }
  // Where the row of each key is.
  std::vector<std::vector<float*>> places(const std::vector<std::vector<int64_t>>& batches) {
    absl::flat_hash_map<int64_t, float*> wanted;
    for (const auto& keys : batches)
      for (const int64_t key : keys) wanted[key] = nullptr;
    for (uint64_t cursor = 0; cursor != Store::kScanEnd;)
      cursor = store->scan(0, cursor, 1 << 16, [&](KeysView keys, std::span<const float> values) {
        const size_t stride = values.size() / keys.size();
        for (size_t i = 0; i < keys.size(); ++i)
          if (const auto found = wanted.find(keys.ints[i]); found != wanted.end())
            found->second = const_cast<float*>(values.data()) + i * stride;
      });
    std::vector<std::vector<float*>> all;
    for (const auto& keys : batches)
      for (auto& list = all.emplace_back(); const int64_t key : keys) list.push_back(wanted.at(key));
    return all;
  }

  uint32_t dim;
  std::unique_ptr<const Optimizer> adam = Optimizer::make({"adam", {}});
  std::unique_ptr<Store> store = storage::make_memory_store();
  double longest_insert = 0;  // of one call with kFill keys
};

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

struct Shares {
  double pull, push;
};

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
  const auto pull = [&] {
    for (const auto& batch : batches)
      engine.store->gather(0, view(batch), std::span(out).first(batch.size() * dim),
                           std::span(found).first(batch.size()));
  };
  const auto pull_floor = [&] {
    float sum = 0;
    for (size_t b = 0; b < batches.size(); ++b)
      touch(places[b], index, b * kBatch, dim, [&](size_t i, float line) {
        std::memcpy(&out[i * dim], places[b][i], dim * sizeof(float));
        sum += line;
      });
    sink = sum;
  };
  const auto apply = [&] {
    for (const auto& batch : batches)
      storage::apply(*engine.store, 0, *engine.adam, {++step, 1e-6}, view(batch),
                     std::span<const float>(grads).first(batch.size() * dim));
  };
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

// What a user could build from a well-kept map in a day: the peer of insertion.
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

// Rows/s of inserting `rows` keys, every fourth of which is asked for again; by the clock, since ours has
// pages made by another thread.
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

// Seconds that it takes to touch a huge page for the first time: median and longest of those of 512 MiB.
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

// Seconds of the longest insertion into memory that was touched before: the least of three fillings, as what
// growth costs comes again in each.
double longest_into_warm_memory(uint64_t rows) {
  double least = INFINITY;
  for (int i = 0; i < 5; ++i) {
    warm_memory(bytes_of(rows, 16));
    least = std::min(least, Engine(16, rows, true).longest_insert);
  }
  return least;
}

// Rows/s of push and pull by as many threads as there are engines.
double threads_rate(std::vector<Engine>& engines, const std::vector<std::vector<int64_t>>& batches) {
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
          engine.store->gather(0, view(batch), std::span(out).first(batch.size() * dim),
                               std::span(found).first(batch.size()));
          storage::apply(*engine.store, 0, *engine.adam, {++step, 1e-6}, view(batch),
                         std::span<const float>(grads).first(batch.size() * dim));
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

// At most `wanted` rows, and what fits three quarters of the memory.
uint64_t rows_that_fit(uint64_t wanted, size_t floats) {
  const uint64_t bytes = floats * sizeof(float) + 64;
  return std::min(wanted, available_memory() / 4 * 3 / bytes);
}

double geometric_mean(const Json& grid, const char* ratio) {
  double sum = 0;
  for (const Json& point : grid) sum += std::log(point.at(ratio).get<double>());
  return std::exp(sum / static_cast<double>(grid.size()));
}

// Share of the floor of pulls of dim 4 without slots.
double share_at(uint64_t rows, int rounds, Json& report) {
  Engine engine(4, rows, false);
  const IndexLines index(rows);
  report["scale"].push_back(measure(engine, index, {4, rows, false}, rounds, false));
  return report["scale"].back()["pull_vs_floor"].get<double>();
}

}  // namespace

int bench_engine(const BenchOptions& options) {
  Json report = begin_report("engine", options);
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
    longest = std::max(longest, engine.longest_insert);
    const IndexLines index(rows);
    for (const bool zipf : {false, true})
      report["grid"].push_back(measure(engine, index, {dim, rows, zipf}, rounds, true));
  }
  for (const uint32_t dim : {16, 64, 128})
    report["insert"].push_back(
        measure_insert(dim, rows_that_fit(wanted, 3 * size_t{dim}) / 2, options.quick ? 2 : 3));
  const double longest_warm = longest_into_warm_memory(rows_that_fit(wanted, 3 * 16));
  report["longest_insertion_s"] = longest;
  report["longest_insertion_into_warm_memory_s"] = longest_warm;
  report["overhead_bytes"] = overhead;
  const auto [page, longest_page] = page_seconds();
  report["huge_page_s"] = {{"median", page}, {"longest", longest_page}};
  fmt::print(
      "longest insertion of {} rows: {:.2f} ms, into warm memory {:.2f} (a huge page of the kernel's: "
      "{:.2f}, the "
      "longest {:.2f}); {:.1f} bytes a row beyond its floats\n",
      kFill, longest * 1e3, longest_warm * 1e3, page * 1e3, longest_page * 1e3, overhead);
  const double small = share_at(1'000'000, rounds, report);
  const double large = share_at(options.quick ? 10'000'000 : rows_that_fit(100'000'000, 4), rounds, report);
  const double shards = two_shards(options.quick ? 500'000 : 2'000'000, rounds);
  report["targets"] = {target("engine.pull_vs_floor", geometric_mean(report["grid"], "pull_vs_floor"), 0.8),
                       target("engine.push_vs_floor", geometric_mean(report["grid"], "push_vs_floor"), 0.8),
                       target("engine.insert_vs_absl", geometric_mean(report["insert"], "ratio"), 1.25),
                       target_at_most("engine.overhead_bytes", overhead, 24),
                       target_at_most("engine.longest_insertion_ms", longest_warm * 1e3, 5),
                       target("engine.scale_100m", large / small, 0.9),
                       target("engine.two_shards", shards, 1.6)};
  end_report(report, options);
  return 0;
}

}  // namespace embers
