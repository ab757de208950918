#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <utility>
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

// Of a thread that only looks at the clock, for so long: what the system, or a hypervisor, holds up. One for
// each slice that is as long as an insertion.
Latencies of_the_clock(double seconds) {
  constexpr double kSlice = 5e-6;
  Latencies latencies;
  const auto begin = BenchClock::now();
  for (double now = 0; now < seconds;) {
    double longest = 0;
    for (const double until = now + kSlice; now < until;) {
      const double next = seconds_since(begin);
      longest = std::max(longest, next - now);
      now = next;
    }
    latencies.add(1e3 * longest);
  }
  return latencies;
}

double seconds_of(const Latencies& latencies) {
  return std::accumulate(latencies.all().begin(), latencies.all().end(), 0.0) / 1e3;
}

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
  struct Case {
    const char* name;
    Percentiles insertion = {}, clock = {};
    void add(uint64_t rows) {
      const Latencies latencies = insertions(rows);
      insertion.add(latencies);
      clock.add(of_the_clock(seconds_of(latencies)));
    }
  };
  Percentiles page;
  Case idle{"idle"}, busy{"busy"};
  for (size_t i = 0; i < kFillings; ++i) {
    page.add(bare_faults(table_bytes(rows, 16, true)));
    idle.add(rows);
    const BusyCore other;
    busy.add(rows);
  }
  InsertionLatency result;
  result.report = {{"rows", rows}, {"bare_fault", page.json()}};
  page.print("a bare fault of a huge page");
  for (const Case* c : {&idle, &busy}) {
    c->insertion.print(fmt::format("64 rows, the other core {}", c->name).c_str());
    c->clock.print("nothing but the clock, as long");
    result.report[c->name] = c->insertion.json();
    result.report[c->name]["clock"] = c->clock.json();
    result.report["of_fillings"][c->name] = c->insertion.longest;
  }
  std::fflush(stdout);
  const auto worse = [&](std::vector<double> Percentiles::*of) -> std::pair<Estimate, Estimate> {
    const Estimate a = median_estimate(idle.insertion.*of), b = median_estimate(busy.insertion.*of);
    const Case& worst = a.value > b.value ? idle : busy;
    return {most(std::vector{a, b}), median_estimate(worst.clock.*of)};
  };
  result.p9999_ms = worse(&Percentiles::p9999);
  result.longest_ms = worse(&Percentiles::longest);
  return result;
}

}  // namespace embers
