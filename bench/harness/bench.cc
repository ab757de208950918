#include "bench/harness/bench.h"

#include <fmt/format.h>

#include <cmath>

#include "base/files/output_file.h"
#include "bench/harness/machine.h"
#include "model/lookup/kernels/row_kernels.h"
#include "model/step.h"

namespace embers {

using Json = nlohmann::json;

double seconds_since(BenchClock::time_point begin) {
  return std::chrono::duration<double>(BenchClock::now() - begin).count();
}

namespace {

Json entry(const std::string& name, double value, double wanted, bool holds) {
  fmt::print("{:<40} {:6.2f}  target {:5.2f}  {}\n", name, value, wanted, holds ? "holds" : "MISSED");
  return {{"name", name}, {"value", value}, {"target", wanted}, {"holds", holds}};
}

}  // namespace

Json target(const std::string& name, double value, double wanted) {
  return entry(name, value, wanted, value >= wanted);
}

Json target(const std::string& name, double value, double wanted, double limit) {
  Json json = target(name, value, wanted);
  const bool met = value >= wanted || (limit < wanted && value >= 0.9 * limit);
  fmt::print("{:<40} {:6.2f}  of the limit's {:.2f}{}\n", "", value / limit, limit,
             met && value < wanted ? ": met" : "");
  json.update({{"limit", limit}, {"of_limit", value / limit}, {"met", met}});
  return json;
}

Json target_at_most(const std::string& name, double value, double wanted) {
  return entry(name, value, wanted, value <= wanted);
}

double geometric_mean(const Json& points, const std::string& path) {
  double sum = 0;
  for (const Json& point : points) sum += std::log(point.at(Json::json_pointer(path)).get<double>());
  return std::exp(sum / static_cast<double>(points.size()));
}

Json begin_report(const std::string& bench, const BenchOptions& options) {
  if (!options.report.empty()) check_file(options.report);
  std::string warning;
  Json report{{"bench", bench},
              {"quick", options.quick},
              {"machine", machine()},
              {"embers_instructions", row_kernels().instructions},
              {"libtorch", numeric_settings(1, &warning)}};
  const Json& on = report["machine"];
  fmt::print("{}, {} cores, {:.1f} GiB, {}, load {:.2f}\n", on["cpu"].get<std::string>(),
             on["cores"].get<int>(), on["memory_bytes"].get<double>() / (1 << 30),
             on["kernel"].get<std::string>(), on["load"].get<double>());
  fmt::print("embers: {}; libtorch: {}\n{}", row_kernels().instructions, report["libtorch"].dump(),
             warning.empty() ? "" : warning + "\n");
  return report;
}

void end_report(const Json& report, const BenchOptions& options) {
  if (!options.report.empty()) write_file(options.report, report.dump(2) + '\n');
}

int64_t RandomIds::id() {
  const auto rows = static_cast<double>(rows_);
  if (!zipf_) return static_cast<int64_t>(unit() * rows);
  const auto rank = static_cast<uint64_t>(std::pow(rows, unit()));
  return static_cast<int64_t>(rank * 2654435761 % static_cast<uint64_t>(rows_));
}

LookupColumn RandomIds::column(int64_t bags, int64_t most) {
  LookupColumn column;
  column.offsets.push_back(0);
  for (int64_t b = 0; b < bags; ++b) {
    for (int64_t i = 1 + static_cast<int64_t>(unit() * static_cast<double>(most)); i > 0; --i) {
      column.ids.push_back(id());
      column.weights.push_back(static_cast<float>(0.5 + unit()));
    }
    column.offsets.push_back(static_cast<int64_t>(column.ids.size()));
  }
  return column;
}

}  // namespace embers
