// embers bench python: scripts of PyTorch with embers beside the same scripts with torch's own tables.
//
// training.cc trains DLRM and DeepFM, lookup.cc looks rows up; the scripts stand beside them.
#include "bench/python/python.h"

#include <algorithm>

#include "bench/harness/bench.h"
#include "bench/models/job.h"
#include "bench/python/peers.h"

namespace embers {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

nlohmann::json with_range(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"median", median_of(values)}, {"least", *least}, {"most", *most}};
}

int bench_python(const BenchOptions& options) {
  nlohmann::json report = begin_report("python", options);
  const BenchFolder folder;
  prepare_python(folder.path);
  measure_lookup(options, folder.path, report);
  measure_training(options, folder.path, report);
  end_report(report, options);
  return 0;
}

}  // namespace embers
