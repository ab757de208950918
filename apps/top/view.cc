#include "apps/top/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/control/status_json.h"
#include "apps/process/progress_line.h"
#include "apps/process/shown_text.h"
#include "apps/top/members.h"
#include "base/quantities.h"

namespace embers {
namespace {

std::string title(const View& view) {
  std::string text = " embers top";
  if (view.status) {
    const Status& s = *view.status;
    text += fmt::format("  {}  {}  {}", job_file(s), s.task == "train" ? s.mode : s.task,
                        short_duration(s.elapsed_s));
  }
  return text + "  " + view.master + "  q: leave";
}

std::vector<std::string> troubles(const View& view) {
  std::vector<std::string> lines;
  if (!view.trouble.empty())
    lines.push_back(
        fmt::format("no answer for {}, trying again: {}", short_duration(view.silent_s), view.trouble));
  if (view.status && !view.status->error.empty()) lines.push_back("failed: " + view.status->error);
  if (view.status && !view.status->stopping.empty()) lines.push_back("stopping: " + view.status->stopping);
  return lines;
}

std::string progress(const Status& s, size_t columns) {
  const ProgressFigures p = figures_of(s);
  std::vector<Part> parts{{p.what, 0}};
  if (!std::isnan(p.share)) parts.push_back({percent(p.share), 1});
  if (p.remaining) parts.push_back({short_duration(std::max(1.0, *p.remaining)) + " left", 2});
  if (!std::isnan(p.share))
    parts.push_back({fmt::format("{} of {} minibatches", s.minibatches_done, s.minibatches), 3});
  const std::string text = fit_parts(parts, columns);
  constexpr size_t kLeastBar = 10, kMostBar = 60, kBrackets = 4;  // with the gap before it
  if (std::isnan(p.share) || text.size() + kLeastBar + kBrackets > columns) return text;
  return text + "  " + progress_bar(p.share, std::min(columns - text.size() - kBrackets, kMostBar));
}

std::string rates(const Status& s, size_t columns) {
  const std::string staleness =
      std::isnan(s.staleness_mean)
          ? "staleness -"
          : fmt::format("staleness {} (max {})", decimal(s.staleness_mean, 2), s.staleness_max);
  return fit_parts({{short_count(s.examples_per_s) + " examples/s", 0},
                    {"loss " + decimal(s.loss, 4), 1},
                    {"AUC " + decimal(s.auc, 4), 2},
                    {staleness, 3},
                    {short_count(static_cast<double>(rows_of(s))) + " rows", 4},
                    {short_count(static_cast<double>(s.examples)) + " examples", 6},
                    {fmt::format("version {}", s.version), 5}},
                   columns);
}

std::string group(const char* what, const Status::Group& g) {
  const std::string lost = g.lost > 0 ? fmt::format(" ({} lost)", g.lost) : "";
  return fmt::format("{} {} of {}{}", what, g.joined, g.wanted, lost);
}

std::string groups(const Status& s, size_t columns) {
  std::vector<Part> parts{{group("workers", s.workers), 0}, {group("shards", s.shards), 1}};
  if (s.evaluation)
    parts.push_back(
        {fmt::format("last evaluation: loss {}, AUC {}, accuracy {}", decimal(s.evaluation->loss, 4),
                     decimal(s.evaluation->auc, 4), decimal(s.evaluation->accuracy, 4)),
         2});
  return fit_parts(parts, columns);
}

}  // namespace

std::vector<Line> render(const View& view, size_t columns, size_t lines) {
  std::vector<Line> shown{{pad_to(title(view), columns), Line::Style::kTitle}};
  for (const std::string& trouble : troubles(view))
    shown.push_back({cut_to(trouble, columns), Line::Style::kBad});
  if (view.status) {
    const Status& s = *view.status;
    for (const std::string& line :
         {progress(s, columns), rates(s, columns), groups(s, columns), std::string()})
      shown.push_back({cut_to(line, columns)});
    const size_t room = lines > shown.size() ? lines - shown.size() : 0;
    std::ranges::move(render_members(s.members, columns, room), std::back_inserter(shown));
  } else if (view.trouble.empty()) {
    shown.push_back({cut_to("asking the master ...", columns)});
  }
  if (shown.size() > lines) shown.resize(lines);
  return shown;
}

std::string epitaph(const View& view, const std::string& error) {
  const std::string job = view.status ? fmt::format("the job '{}'", job_file(*view.status)) : "the job";
  const std::string after =
      view.status ? fmt::format(" after {}", short_duration(view.status->elapsed_s + view.silent_s)) : "";
  if (!error.empty()) return fmt::format("{} has failed{}: {}", job, after, error);
  std::string text = fmt::format("{} has ended{}", job, after);
  if (!view.status) return text;
  const Status& s = *view.status;
  if (!s.stopping.empty()) text += fmt::format(", stopped by {}", s.stopping);
  if (s.evaluation)
    text += fmt::format(": loss {}, AUC {}, accuracy {}", decimal(s.evaluation->loss, 4),
                        decimal(s.evaluation->auc, 4), decimal(s.evaluation->accuracy, 4));
  return text;
}

}  // namespace embers
