#pragma once

#include "apps/command_line/command.h"
#include "client/admin.h"

// The commands that look at a running job or steer it. Each returns the exit status, or throws embers::Error.
namespace embers {

int show_status(const StatusOptions& options);
int scale(const ScaleOptions& options);
int drain(const DrainOptions& options);
int stop(const StopOptions& options);
int checkpoint(const CheckpointOptions& options);

// How such a command reaches its job. kInvalid when neither options nor environment say where that is.
client::AdminOptions admin_options(const JoinOptions& options);

}  // namespace embers
