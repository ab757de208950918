#pragma once

#include "apps/command_line/command.h"

namespace embers::launch {

// embers launch: runs a whole job. Returns the job's exit status, or throws embers::Error.
int launch(const LaunchOptions& options);

}  // namespace embers::launch
