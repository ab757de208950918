#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <random>
#include <string>

#include "apps/command_line/command.h"
#include "bench/harness/contest.h"
#include "bench/harness/targets.h"
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

// The mean of the numbers at `path`, a JSON pointer, in all points.
double geometric_mean(const nlohmann::json& points, const std::string& path);

// Begins a report: name, sizes, machine, instruction sets and BLAS, also printed. `sizes` is empty for those
// that the targets' names stand for, else a name for those that this run measures ("quick"). Throws if
// --report cannot be written.
nlohmann::json begin_report(const std::string& bench, const BenchOptions& options,
                            const std::string& sizes = "");
// What a benchmark with --rows calls its sizes.
std::string sizes_of(const BenchOptions& options);
// Writes the report and prints its targets. Returns the exit status. Throws kInternal, naming them, if limits
// were beaten; with --quick, where a few rounds tell little, it only says so.
int end_report(nlohmann::json report, const BenchOptions& options);

// Fails (kInvalid), saying what takes less, unless so much memory is available: nothing is measured with
// fewer rows than the report says.
void need_memory(uint64_t bytes, const std::string& what, const std::string& instead);

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
