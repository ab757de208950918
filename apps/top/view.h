#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "schema/status.h"

namespace embers {

// What `embers top` knows.
struct View {
  std::string master;            // how it is reached: an address, or the job's directory
  std::optional<Status> status;  // the last answer
  std::string trouble;           // why there is no newer one; "" if there is
  double silent_s = 0;           // since the last answer, or since there was a first attempt
};

struct Line {
  enum class Style { kPlain, kTitle, kHeads, kBad };
  std::string text;
  Style style = Style::kPlain;
};

// The view on a terminal of this size: at most so many lines, each at most so many columns wide. Figures and
// columns of the table that have no room are left out, the least important ones first; so are members, those
// in trouble last.
std::vector<Line> render(const View& view, size_t columns, size_t lines);

// How a job ended that is over, in one line. `error`: "" if it ended well.
std::string epitaph(const View& view, const std::string& error);

}  // namespace embers
