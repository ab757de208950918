#include "bench/harness/bench.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>

#include "base/errors.h"
#include "base/files/output_file.h"
#include "bench/harness/machine.h"
#include "model/lookup/kernels/row_kernels.h"
#include "model/step.h"

namespace embers {

using Json = nlohmann::json;

double seconds_since(BenchClock::time_point begin) {
  return std::chrono::duration<double>(BenchClock::now() - begin).count();
}

double geometric_mean(const Json& points, const std::string& path) {
  double sum = 0;
  for (const Json& point : points) sum += std::log(point.at(Json::json_pointer(path)).get<double>());
  return std::exp(sum / static_cast<double>(points.size()));
}

Json begin_report(const std::string& bench, const BenchOptions& options, const std::string& sizes) {
  if (!options.report.empty()) check_file(options.report);
  std::string warning;
  const char* const commit = std::getenv("EMBERS_COMMIT");
  Json report{{"bench", bench},
              {"quick", options.quick},
              {"sizes", sizes},
              {"commit", commit == nullptr ? "" : commit},
              {"machine", machine()},
              {"embers_instructions", row_kernels().instructions},
              {"libtorch", numeric_settings(1, &warning)},
              {"targets", Json::array()},
              {"limits", Json::array()}};
  const Json& on = report["machine"];
  fmt::print("{}, {} cores, {:.1f} GiB, {}, load {:.2f}\n", on["cpu"].get<std::string>(),
             on["cores"].get<int>(), on["memory_bytes"].get<double>() / (1 << 30),
             on["kernel"].get<std::string>(), on["load"].get<double>());
  fmt::print("embers: {}; libtorch: {}\n{}", row_kernels().instructions, report["libtorch"].dump(),
             warning.empty() ? "" : warning + "\n");
  return report;
}

std::string sizes_of(const BenchOptions& options) {
  const std::string rows = options.rows == BenchOptions().rows ? "" : fmt::format("rows={}", options.rows);
  return fmt::format("{}{}{}", options.quick ? "quick" : "", options.quick && !rows.empty() ? "," : "", rows);
}

int end_report(Json report, const BenchOptions& options) {
  if (const std::string sizes = report["sizes"]; !sizes.empty()) name_sizes(report, sizes);
  fmt::print("{}", table_of_targets(report));
  if (!options.report.empty()) write_file(options.report, report.dump(2) + '\n');
  const std::vector<std::string> beaten = beaten_limits(report);
  if (beaten.empty()) return 0;
  const std::string what = fmt::format("embers beats what should be a limit: {}", fmt::join(beaten, ", "));
  if (!options.quick) fail(ErrorCode::kInternal, "{}; its program does more than it must", what);
  fmt::print("{}\n", what);
  return 0;
}

void need_memory(uint64_t bytes, const std::string& what, const std::string& instead) {
  const uint64_t available = available_memory();
  if (bytes > available)
    fail(ErrorCode::kInvalid, "{} takes {:.1f} GiB of memory, and {:.1f} are available; {}", what,
         static_cast<double>(bytes) / (1 << 30), static_cast<double>(available) / (1 << 30), instead);
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
