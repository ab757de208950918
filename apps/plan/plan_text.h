#pragma once

#include <string>

#include "apps/plan/plan.h"

namespace embers::plan {

// A table of what was measured, and what the job file should say.
std::string to_text(const Plan& plan);

}  // namespace embers::plan
