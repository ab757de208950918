// The program embers-bench: `embers-bench NAME ...` is what `embers bench NAME ...` becomes.
#include <vector>

#include "apps/command_line/run_program.h"
#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/parts.h"
#include "model/step.h"

namespace embers {
namespace {

int run_bench(const BenchOptions& options) {
  switch (options.bench) {
    case Bench::kEngine:
      return bench_engine(options);
    case Bench::kLookup:
      return bench_lookup(options);
    case Bench::kModel:
      return bench_model(options);
    case Bench::kTrain:
      return bench_train(options);
    case Bench::kWire:
      return bench_wire(options);
    case Bench::kBackends:
      return bench_backends(options);
    case Bench::kStorage:
      return bench_storage(options);
    case Bench::kControl:
      return bench_control(options);
    case Bench::kHosts:
      return bench_hosts(options);
    case Bench::kPython:
      return bench_python(options);
    case Bench::kPartition:
      return bench_partition(options);
  }
  fail(ErrorCode::kInternal, "there is no benchmark with this number");
}

}  // namespace
}  // namespace embers

int main(int argc, char** argv) {
  using namespace embers;
  choose_blas_core();
  std::vector<const char*> words(argv, argv + argc);
  words.insert(words.begin() + (argc > 0), "bench");
  return run_program(static_cast<int>(words.size()), words.data(), [](const Command& command) {
    return std::visit(Overloaded{[](const BenchOptions& o) { return run_bench(o); },
                                 [](const BenchPartOptions& o) { return bench_part(o.words); },
                                 [](const auto&) -> int {
                                   fail(ErrorCode::kInvalid, "this is a command of the program embers");
                                 }},
                      command);
  });
}
