#pragma once

#include <string>

#include "master/state/events/events.h"

namespace embers::job_state_testing {

// All that they say, to compare one with another.
std::string text(const Commit& commit);
std::string text(const Effect& effect);

}  // namespace embers::job_state_testing
