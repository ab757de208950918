#pragma once

#include <functional>

#include "apps/command_line/command.h"

namespace embers {

// main() of a program that runs commands: parses the command line, all commands of which are known to all
// programs, and runs the chosen one. Returns the exit status; errors of either are printed.
int run_program(int argc, const char* const* argv, const std::function<int(const Command&)>& run);

}  // namespace embers
