#pragma once

#include <cstddef>
#include <vector>

#include "apps/top/view.h"

namespace embers {

// The table of members in at most so many lines: its heads, then a line each, those in trouble first, then by
// role and number. What has no room is counted in the last line.
std::vector<Line> render_members(std::vector<Status::Member> members, size_t columns, size_t lines);

}  // namespace embers
