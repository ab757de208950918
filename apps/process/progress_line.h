#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "schema/status.h"

// A running job in one line.
namespace embers {

// A text among others on a line, which may have too little room for all of them.
struct Part {
  std::string text;
  unsigned rank = 0;  // parts with higher ranks are left out first; ranks differ
};
// The parts in their order, with two spaces between them, without those that have no room: a part is shown
// only if all of lower rank are. Texts are ASCII.
std::string fit_parts(const std::vector<Part>& parts, size_t columns);

// How far a job has got.
struct ProgressFigures {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::string what;                 // "epoch 2/5", "evaluating"
  double share = kNone;             // that is done of this
  std::optional<double> remaining;  // seconds until the job has ended
  double examples_per_second = kNone, loss = kNone, auc = kNone;
  uint64_t examples = 0, version = 0, rows = 0, workers = 0;
};

// What the master says about a job.
ProgressFigures figures_of(const Status& status);
uint64_t rows_of(const Status& status);  // of all shards

// "[###     ]", with so many columns between the brackets.
std::string progress_bar(double share, size_t width);

// For a terminal, at most so many columns wide:
//
//   epoch 2/5  [###     ]   42%  4m05s left  92.1k/s  loss 0.2706  AUC 0.9287  4 workers  12.3k rows
//
// When it narrows, the version goes first, then rows, workers, the bar, AUC, loss, the rate, and the time
// left. What is being done and how much of it stay, as far as there is room at all.
std::string progress_line(const ProgressFigures& p, size_t columns);

// For a log: everything, however long, and the examples so far instead of a bar.
std::string progress_text(const ProgressFigures& p);

}  // namespace embers
