// The main function of every benchmark program: uses the allocator settings of the embers command.
#include <benchmark/benchmark.h>

#include "base/tune_malloc.h"

int main(int argc, char** argv) {
  embers::tune_malloc();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
