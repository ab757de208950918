#include "apps/control/status_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "apps/control/status_json.h"
#include "apps/process/shown_text.h"
#include "base/quantities.h"

namespace embers {
namespace {

using Row = std::vector<std::string>;

// Parts that are there, two spaces apart.
std::string line(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    if (!part.empty()) text += (text.empty() ? "" : "  ") + part;
  return text.empty() ? "" : text + "\n";
}

std::string shown(const std::string& text) { return cut_to(text, columns_of(text)); }

std::string group(const char* what, const Status::Group& g) {
  return fmt::format("{} of {} {}{}", g.joined, g.wanted, what,
                     g.lost == 0 ? "" : fmt::format(" ({} lost)", g.lost));
}

std::string metrics(const char* of, double loss, double auc, double accuracy) {
  std::string text;
  const auto add = [&](const char* name, double value) {
    if (std::isfinite(value)) text += fmt::format("{}{} {:.4f}", text.empty() ? of : "  ", name, value);
  };
  add("loss", loss);
  add("AUC", auc);
  add("accuracy", accuracy);
  return text;
}

std::string place(const Status& s) {
  if (s.minibatches == 0 || s.phase == "gathering" || s.phase == "preparing") return "";
  const bool evaluates = s.phase == "evaluating" || s.phase == "scoring";
  const std::string of = evaluates ? "evaluation" : fmt::format("epoch {} of {}", s.epoch, s.epochs);
  const double done = static_cast<double>(s.minibatches_done) / static_cast<double>(s.minibatches);
  return fmt::format("{}: {} of {} minibatches ({})", of, s.minibatches_done, s.minibatches, percent(done));
}

std::string count(bool shown, uint64_t n) { return shown ? short_count(static_cast<double>(n)) : ""; }

Row row(const Status::Member& m) {
  const bool worker = m.role == "worker", shard = m.role == "shard", here = m.state != "away";
  const auto rate = [&](double x) { return here ? decimal(x, x < 10 ? 1 : 0) : ""; };
  return {m.name,
          m.label,
          m.host,
          here ? std::to_string(m.pid) : "",
          m.state,
          count(worker, m.minibatches),
          count(worker, m.examples),
          count(shard && here, m.rows),
          shard && here ? short_bytes(static_cast<double>(m.bytes)) : "",
          rate(m.pulls_per_s),
          rate(m.pushes_per_s),
          count(here, m.lag),
          here ? short_duration(m.last_sign_s) : ""};
}

// Columns that hold nothing are left out; numbers end where their column does.
std::string table(const std::vector<Row>& rows) {
  constexpr size_t kFirstNumber = 5;
  std::string text;
  std::vector<size_t> widths(rows.front().size(), 0);
  for (size_t c = 0; c < widths.size(); ++c)
    for (size_t r = 1; r < rows.size(); ++r) widths[c] = std::max(widths[c], columns_of(rows[r][c]));
  for (size_t c = 0; c < widths.size(); ++c)
    if (widths[c] > 0) widths[c] = std::max(widths[c], rows.front()[c].size());
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c)
      if (widths[c] > 0)
        line += pad_to(row[c], widths[c], c < kFirstNumber ? Align::kLeft : Align::kRight) + "  ";
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string to_text(const Status& s) {
  std::string text =
      line({fmt::format("{} ({})", shown(job_file(s)), s.mode), s.task == "train" ? "" : s.task, s.phase,
            "for " + short_duration(s.elapsed_s),
            std::isfinite(s.remaining_s) ? "about " + short_duration(s.remaining_s) + " left" : ""});
  if (!s.error.empty()) text += "error: " + s.error + "\n";
  if (!s.stopping.empty()) text += "stopping: " + s.stopping + "\n";
  text += line({place(s), s.examples == 0 ? "" : short_count(static_cast<double>(s.examples)) + " examples",
                s.examples_per_s > 0 ? short_count(s.examples_per_s) + " examples/s" : ""});
  text += line({metrics("", s.loss, s.auc, Status::kNone),
                s.evaluation ? metrics("last evaluation: ", s.evaluation->loss, s.evaluation->auc,
                                       s.evaluation->accuracy)
                             : ""});
  text += line({s.version == 0 ? "" : fmt::format("version {}", s.version),
                std::isfinite(s.staleness_mean)
                    ? fmt::format("staleness mean {:.2f}, max {}", s.staleness_mean, s.staleness_max)
                    : ""});
  text += line({group("workers", s.workers), group("shards", s.shards)});
  if (s.members.empty()) return text;
  std::vector<Row> rows{{"MEMBER", "LABEL", "HOST", "PID", "STATE", "MINIBATCHES", "EXAMPLES", "ROWS",
                         "MEMORY", "PULLS/S", "PUSHES/S", "LAG", "LAST SIGN"}};
  std::vector<Status::Member> members = s.members;
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return std::pair(a.role, a.number) < std::pair(b.role, b.number);
  });
  for (const Status::Member& m : members) rows.push_back(row(m));
  return text + "\n" + table(rows);
}

}  // namespace embers
