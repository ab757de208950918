#include "apps/compute/console.h"

#include <optional>

#include "base/files/output_file.h"
#include "base/log/standard_error.h"
#include "base/quantities.h"

namespace embers {
namespace {

ProgressFigures figures_of(const Progress& p) {
  ProgressFigures f;
  f.what = p.evaluating ? "evaluating" : fmt::format("epoch {}/{}", p.epoch, p.epochs);
  if (p.total_minibatches > 0)
    f.share = static_cast<double>(p.minibatches) / static_cast<double>(p.total_minibatches);
  f.remaining = p.remaining;
  f.examples_per_second = p.examples_per_second;
  f.loss = p.loss;
  f.auc = p.auc;
  f.examples = p.examples;
  f.version = p.owners.version;
  f.rows = p.owners.rows;
  f.workers = p.workers;
  return f;
}

}  // namespace

void Console::progress(const Progress& p) { progress_.show(figures_of(p)); }

void Console::event(const std::string& line) { out_.line(at_present(line)); }

std::string counted(uint64_t n, const char* thing, const char* plural) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : plural);
}

void show_on(Console& console, MasterConfig& config) {
  config.on_progress = [&console](const Progress& p) { console.progress(p); };
  config.on_event = [&console](const std::string& line) { console.event(line); };
}

void conclude(const JobResult& result, const std::string& report_file, bool verbose) {
  if (result.error) throw Error(*result.error);
  const nlohmann::json json = to_json(result.report);
  std::optional<Error> unwritten;
  try {
    if (!report_file.empty())
      write_file(report_file, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  } catch (const Error& e) {
    unwritten = e;
  }
  flush_standard_error();
  const Period& t = result.report.total;
  fmt::print("{} examples in {:.2f} s ({:.0f} examples/s), {} rows, version {}, peak memory {:.0f} MiB\n",
             t.examples, t.seconds, t.examples_per_second(), t.owners.rows, t.owners.version,
             json["peak_memory_bytes"].get<double>() / (1 << 20));
  const std::string trained =
      result.report.epochs.empty() ? "" : fmt::format("loss {}  ", decimal(t.loss, 4));
  fmt::print("{}test loss {}  AUC {}  accuracy {}\n", trained, decimal(t.test_loss, 4), decimal(t.auc, 4),
             decimal(t.accuracy, 4));
  const Staleness& staleness = t.owners.staleness;
  if (staleness.pushes() > 0)
    fmt::print("staleness of gradients {}\n", verbose ? staleness.text() : staleness.summary());
  if (result.report.skipped_rows > 0) fmt::print("{} bad rows were skipped\n", result.report.skipped_rows);
  if (unwritten) throw Error(*unwritten);
}

}  // namespace embers
