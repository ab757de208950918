#pragma once

#include "apps/command_line/command.h"

namespace embers {

// embers synth criteo. Returns the exit status, or throws embers::Error.
int synth_criteo(const SynthOptions& options);

}  // namespace embers
