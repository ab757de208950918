#pragma once

#include <string>

#include "schema/status.h"

namespace embers {

// A few lines about the job and a table of its members, each line with its end.
std::string to_text(const Status& status);

}  // namespace embers
