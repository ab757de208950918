#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/cpus.h"
#include "bench/engine/insert.h"
#include "bench/engine/table.h"
#include "bench/harness/bench.h"
#include "bench/harness/latencies.h"
#include "storage/memory/pages.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kFillings = 5;

// Keeps the last core busy while it lives.
class BusyCore {
 public:
  BusyCore()
      : thread_([this] {
          bind_thread(allowed_cpus().back());
          while (!over_) continue;
        }) {}
  ~BusyCore() {
    over_ = true;
    thread_.join();
  }
  BusyCore(const BusyCore&) = delete;
  BusyCore& operator=(const BusyCore&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

struct Percentiles {
  std::vector<double> p50, p999, p9999, longest;  // ms, of each filling

  void add(const Latencies& latencies) {
    p50.push_back(latencies.percentile(0.5));
    p999.push_back(latencies.percentile(0.999));
    p9999.push_back(latencies.percentile(0.9999));
    longest.push_back(latencies.percentile(1));
  }
  Json json() const {
    return {{"p50_ms", spread(p50)},
            {"p99_9_ms", spread(p999)},
            {"p99_99_ms", spread(p9999)},
            {"longest_ms", spread(longest)}};
  }
  void print(const char* what) const {
    fmt::print("{:<32} p50 {:.4f} ms, p99.9 {:.3f}, p99.99 {:.3f}, longest {:.3f} (median of {} fillings)\n",
               what, median(p50), median(p999), median(p9999), median(longest), p50.size());
  }
};

// Memory that the kernel has handed out. What it gets back and nobody uses, it may report to a hypervisor,
// which takes it and later needs milliseconds for a page (free page reporting begins after two seconds). So
// it gets it back little by little, shortly before it is needed.
class WarmMemory {
 public:
  explicit WarmMemory(uint64_t bytes) {
    for (uint64_t done = 0; done < bytes; done += kPart) {
      const storage::Pages& pages = parts_.emplace_back(kPart, true);
      for (size_t at = 0; at < pages.size(); at += storage::kHugePage) pages.data()[at] = std::byte{1};
    }
    give_back(kAhead);
  }
  void give_back(uint64_t bytes) {
    for (owed_ += bytes; owed_ >= kPart && !parts_.empty(); owed_ -= kPart) parts_.pop_back();
  }

 private:
  static constexpr uint64_t kPart = uint64_t{16} << 20;
  static constexpr uint64_t kAhead = uint64_t{256} << 20;  // an index takes much at once

  std::vector<storage::Pages> parts_;
  uint64_t owed_ = 0;  // bytes that were to be given back, and are not yet
};

Latencies insertions(uint64_t rows) {
  constexpr uint64_t kRowsAtOnce = 1 << 16;
  WarmMemory memory(table_bytes(rows, 16, true));
  Engine engine(16, true);
  Latencies latencies;
  while (engine.rows() < rows) {
    const uint64_t wanted = std::min(rows, engine.rows() + kRowsAtOnce);
    memory.give_back(table_bytes(wanted - engine.rows(), 16, true));
    for (const double seconds : engine.fill(wanted)) latencies.add(1e3 * seconds);
  }
  return latencies;
}

Latencies bare_faults(uint64_t bytes) {
  WarmMemory memory(bytes);
  const storage::Pages pages(bytes, true);
  Latencies latencies;
  for (size_t at = 0; at < pages.size(); at += storage::kHugePage) {
    memory.give_back(storage::kHugePage);
    const auto begin = BenchClock::now();
    pages.data()[at] = std::byte{1};
    latencies.add(1e3 * seconds_since(begin));
  }
  return latencies;
}

}  // namespace

InsertionLatency measure_insertion_latency(uint64_t rows) {
  Percentiles page, idle, busy;
  for (size_t i = 0; i < kFillings; ++i) {
    page.add(bare_faults(table_bytes(rows, 16, true)));
    idle.add(insertions(rows));
    const BusyCore other;
    busy.add(insertions(rows));
  }
  page.print("a bare fault of a huge page");
  idle.print("64 rows, the other core idle");
  busy.print("64 rows, the other core busy");
  const auto worse = [&](std::vector<double> Percentiles::*of) {
    return most(std::vector{median_estimate(idle.*of), median_estimate(busy.*of)});
  };
  std::fflush(stdout);
  return {{{"rows", rows},
           {"idle", idle.json()},
           {"busy", busy.json()},
           {"bare_fault", page.json()},
           {"of_fillings", {{"idle", idle.longest}, {"busy", busy.longest}}}},
          worse(&Percentiles::p9999),
          worse(&Percentiles::longest)};
}

}  // namespace embers
