#pragma once

#include "apps/command_line/command.h"

namespace embers {

// embers doctor. Returns the exit status: 0 when all is well, 2 when something is not.
int run_doctor(const DoctorOptions& options);

}  // namespace embers
