#pragma once

#include "apps/command_line/command.h"

namespace embers {

// embers shard. Returns the exit status, or throws embers::Error.
int serve_shard(const ShardOptions& options);

}  // namespace embers
