// embers bench python: scripts of PyTorch with embers beside the same scripts with torch's own tables.
//
// training.cc trains DLRM and DeepFM, lookup.cc looks rows up; the scripts stand beside them.
#include "bench/python/python.h"

#include "bench/harness/bench.h"
#include "bench/models/job.h"
#include "bench/python/peers.h"

namespace embers {

int bench_python(const BenchOptions& options) {
  nlohmann::json report = begin_report("python", options, options.quick ? "quick" : "");
  const BenchFolder folder;
  prepare_python(folder.path);
  measure_lookup(options, folder.path, report);
  measure_training(options, folder.path, report);
  return end_report(report, options);
}

}  // namespace embers
