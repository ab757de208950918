#include "apps/compute/console.h"

#include <cmath>
#include <optional>

#include "base/files/output_file.h"
#include "base/log/standard_error.h"

namespace embers {
namespace {

constexpr int kBarWidth = 24;

std::string metric(double x, int digits = 4) {
  return std::isfinite(x) ? fmt::format("{:.{}f}", x, digits) : "-";
}

std::string count(uint64_t n) {
  if (n >= 10'000'000) return fmt::format("{:.1f}M", static_cast<double>(n) / 1e6);
  return n >= 10'000 ? fmt::format("{:.1f}k", static_cast<double>(n) / 1e3) : std::to_string(n);
}

std::string figures(const Progress& p) {
  return fmt::format("{}/s  loss {}  AUC {}  version {}  rows {}  workers {}",
                     count(static_cast<uint64_t>(p.examples_per_second)), metric(p.loss), metric(p.auc),
                     p.owners.version, count(p.owners.rows), p.workers);
}

double share(const Progress& p) {
  return p.total_minibatches == 0
             ? 0
             : static_cast<double>(p.minibatches) / static_cast<double>(p.total_minibatches);
}

}  // namespace

void Console::progress(const Progress& p) {
  const std::string what = p.evaluating ? "evaluating" : fmt::format("epoch {}/{}", p.epoch, p.epochs);
  if (!out_.is_terminal()) {
    out_.progress(at_present(
        fmt::format("{} {:3.0f}%  {} examples  {}", what, 100 * share(p), p.examples, figures(p))));
    return;
  }
  const int filled = static_cast<int>(share(p) * kBarWidth);
  out_.progress(fmt::format("{} [{}{}] {:3.0f}%  {}", what, std::string(filled, '#'),
                            std::string(kBarWidth - filled, ' '), 100 * share(p), figures(p)));
}

void Console::event(const std::string& line) { out_.line(at_present(line)); }

void Console::finish() { out_.end_progress(); }

std::string counted(uint64_t n, const char* thing, const char* plural) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : plural);
}

void show_on(Console& console, MasterConfig& config) {
  config.on_progress = [&console](const Progress& p) { console.progress(p); };
  config.on_event = [&console](const std::string& line) { console.event(line); };
}

void conclude(const JobResult& result, const std::string& report_file) {
  if (result.error) throw Error(*result.error);
  const nlohmann::json json = to_json(result.report);
  std::optional<Error> unwritten;
  try {
    if (!report_file.empty()) write_file(report_file, json.dump(2) + '\n');
  } catch (const Error& e) {
    unwritten = e;
  }
  flush_standard_error();
  const Period& t = result.report.total;
  fmt::print("{} examples in {:.2f} s ({:.0f} examples/s), {} rows, version {}, peak memory {:.0f} MiB\n",
             t.examples, t.seconds, t.examples_per_second(), t.owners.rows, t.owners.version,
             json["peak_memory_bytes"].get<double>() / (1 << 20));
  const std::string trained = result.report.epochs.empty() ? "" : fmt::format("loss {}  ", metric(t.loss));
  fmt::print("{}test loss {}  AUC {}  accuracy {}\n", trained, metric(t.test_loss), metric(t.auc),
             metric(t.accuracy));
  if (t.owners.staleness.pushes() > 0) fmt::print("staleness of gradients {}\n", t.owners.staleness.text());
  if (result.report.skipped_rows > 0) fmt::print("{} bad rows were skipped\n", result.report.skipped_rows);
  if (unwritten) throw Error(*unwritten);
}

}  // namespace embers
