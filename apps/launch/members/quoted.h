#pragma once

#include <string>

#include "apps/launch/members/starter.h"

namespace embers::launch {

// The word as a POSIX shell reads it, in quotes if need be.
std::string quoted(const std::string& word);
// All of them, with spaces between.
std::string quoted(const Words& words);

}  // namespace embers::launch
