#pragma once

#include <cstdint>

#include "apps/command_line/command.h"
#include "base/errors.h"

namespace embers {

// Whether a worker whose session ended in this way comes back as a new worker: when the master has given up
// on it, or when its job could not be reached for too long, as while the network was away. Not if it has
// finished nothing since it joined, for then it would hardly do better next time.
bool joins_again(const Error& why, bool has_finished_something);

// Waits until the master of this run can be reached again, for the connect timeout at most. Then this process
// becomes a worker that has just been started, with the same command line. Returns why that cannot be.
Error join_again(const JoinOptions& options, uint64_t run);

}  // namespace embers
