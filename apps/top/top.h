#pragma once

#include "apps/command_line/command.h"

namespace embers {

// embers top. Returns the exit status, or throws embers::Error.
int serve_top(const TopOptions& options);

}  // namespace embers
