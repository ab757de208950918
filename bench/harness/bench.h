#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <random>
#include <string>

#include "apps/command_line/command.h"
#include "bench/peers/lookup_peers.h"

// What the benchmarks have in common.
namespace embers {

using BenchClock = std::chrono::steady_clock;

// The benchmarks. Each returns the exit status, or throws embers::Error.
int bench_engine(const BenchOptions& options);
int bench_lookup(const BenchOptions& options);
int bench_model(const BenchOptions& options);
int bench_train(const BenchOptions& options);
int bench_backends(const BenchOptions& options);
int bench_storage(const BenchOptions& options);
int bench_wire(const BenchOptions& options);
int bench_control(const BenchOptions& options);
int bench_hosts(const BenchOptions& options);
int bench_python(const BenchOptions& options);
int bench_partition(const BenchOptions& options);

double seconds_since(BenchClock::time_point begin);

// One entry of `targets`, which is also printed. The target holds when `value` is at least `wanted`.
nlohmann::json target(const std::string& name, double value, double wanted);
// The same with `limit`, the most that the machine allowed in this run. If that is below `wanted`, the target
// is `met` by 90 % of it; this does not affect `holds`.
nlohmann::json target(const std::string& name, double value, double wanted, double limit);
// The same for a target that holds when `value` is at most `wanted`.
nlohmann::json target_at_most(const std::string& name, double value, double wanted);

// The mean of the numbers at `path`, a JSON pointer, in all points.
double geometric_mean(const nlohmann::json& points, const std::string& path);

// Begins a report: name, machine, instruction sets and BLAS, also printed. Throws if --report cannot be
// written.
nlohmann::json begin_report(const std::string& bench, const BenchOptions& options);
void end_report(const nlohmann::json& report, const BenchOptions& options);

// Ids of [0, rows): uniform, or Zipf with exponent 1, ranks scattered over the rows.
class RandomIds {
 public:
  RandomIds(int64_t rows, bool zipf, uint64_t seed) : rows_(rows), zipf_(zipf), random_(seed) {}
  int64_t id();
  double unit() { return unit_(random_); }  // [0, 1)
  // `bags` bags of 1 to `most` ids, each number equally likely, with weights of [0.5, 1.5).
  LookupColumn column(int64_t bags, int64_t most);

 private:
  const int64_t rows_;
  const bool zipf_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> unit_{0, 1};
};

}  // namespace embers
