#include <algorithm>
#include <atomic>
#include <thread>

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

Latencies insertions(uint64_t rows) {
  warm_memory(table_bytes(rows, 16, true));
  Latencies latencies;
  for (const double seconds : Engine(16, true).fill(rows)) latencies.add(1e3 * seconds);
  return latencies;
}

Latencies bare_faults(uint64_t bytes) {
  warm_memory(bytes);
  const storage::Pages pages(bytes, true);
  Latencies latencies;
  for (size_t at = 0; at < pages.size(); at += storage::kHugePage) {
    const auto begin = BenchClock::now();
    pages.data()[at] = std::byte{1};
    latencies.add(1e3 * seconds_since(begin));
  }
  return latencies;
}

}  // namespace

InsertionLatency measure_insertion_latency(uint64_t rows) {
  Percentiles page, idle, busy;
  // In turns: a hypervisor that has taken memory back gives it slowly.
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
