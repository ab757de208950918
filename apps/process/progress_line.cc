#include "apps/process/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantities.h"

namespace embers {
namespace {

constexpr size_t kGap = 2;  // columns between parts
// Columns between the brackets of the bar. It begins small, and grows when all else has its place.
constexpr size_t kLeastBar = 8, kMostBar = 24;

// In the order in which they are shown.
enum Rank : unsigned { kShare, kWhat, kTimeLeft, kRate, kLoss, kAuc, kBar, kWorkers, kRows, kVersion };

// The parts that a line for people and a line of a log have in common; rows and workers come later.
std::vector<Part> figures(const ProgressFigures& p) {
  std::vector<Part> parts;
  if (p.remaining) parts.push_back({short_duration(std::max(1.0, *p.remaining)) + " left", kTimeLeft});
  parts.push_back({short_count(p.examples_per_second) + "/s", kRate});
  parts.push_back({"loss " + decimal(p.loss, 4), kLoss});
  parts.push_back({"AUC " + decimal(p.auc, 4), kAuc});
  parts.push_back({fmt::format("{} worker{}", p.workers, p.workers == 1 ? "" : "s"), kWorkers});
  parts.push_back({short_count(static_cast<double>(p.rows)) + " rows", kRows});
  parts.push_back({fmt::format("version {}", p.version), kVersion});
  return parts;
}

// As many columns as the bar's figure has at its end, so that what follows it stays where it is.
std::string share_text(double share) { return fmt::format("{:>4}", percent(share)); }

}  // namespace

std::string fit_parts(const std::vector<Part>& parts, size_t columns) {
  std::vector<const Part*> by_rank;
  for (const Part& part : parts) by_rank.push_back(&part);
  std::ranges::sort(by_rank, {}, &Part::rank);
  size_t taken = 0;
  unsigned last = 0;  // rank that still has room, and one more
  for (const Part* part : by_rank) {
    taken += part->text.size() + (taken > 0 ? kGap : 0);
    if (taken > columns) break;
    last = part->rank + 1;
  }
  std::string line;
  for (const Part& part : parts) {
    if (part.rank >= last) continue;
    if (!line.empty()) line.append(kGap, ' ');
    line += part.text;
  }
  return line;
}

uint64_t rows_of(const Status& status) {
  uint64_t rows = 0;
  for (const Status::Member& member : status.members)
    if (member.role == "shard") rows += member.rows;
  return rows;
}

ProgressFigures figures_of(const Status& status) {
  ProgressFigures p;
  const bool training = status.phase == "training", evaluating = status.phase == "evaluating";
  p.what = status.phase;
  if (status.epoch > 0 && status.epochs > 0) {
    const std::string epoch = fmt::format("epoch {}/{}", status.epoch, status.epochs);
    p.what = training ? epoch : epoch + ", " + status.phase;
  }
  if ((training || evaluating) && status.minibatches > 0)
    p.share = static_cast<double>(status.minibatches_done) / static_cast<double>(status.minibatches);
  if (!std::isnan(status.remaining_s)) p.remaining = status.remaining_s;
  p.examples_per_second = status.examples_per_s;
  p.loss = status.loss;
  p.auc = status.auc;
  p.examples = status.examples;
  p.version = status.version;
  p.rows = rows_of(status);
  p.workers = status.workers.joined;
  return p;
}

std::string progress_bar(double share, size_t width) {
  const auto filled = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  return fmt::format("[{}{}]", std::string(filled, '#'), std::string(width - filled, ' '));
}

std::string progress_line(const ProgressFigures& p, size_t columns) {
  std::vector<Part> parts{{p.what, kWhat}};
  if (!std::isnan(p.share)) {
    parts.push_back({progress_bar(p.share, kLeastBar), kBar});
    parts.push_back({share_text(p.share), kShare});
  }
  for (Part& figure : figures(p)) parts.push_back(std::move(figure));
  const std::string line = fit_parts(parts, columns);
  size_t all = 0;
  for (const Part& part : parts) all += part.text.size() + kGap;
  all -= kGap;
  if (line.size() < all || parts[1].rank != kBar) return line;
  parts[1].text = progress_bar(p.share, kLeastBar + std::min(kMostBar - kLeastBar, columns - all));
  return fit_parts(parts, columns);
}

std::string progress_text(const ProgressFigures& p) {
  std::string line = p.what;
  if (!std::isnan(p.share)) line += "  " + share_text(p.share);
  line += fmt::format("  {} examples", p.examples);
  for (const Part& figure : figures(p)) line += "  " + figure.text;
  return line;
}

}  // namespace embers
