#pragma once

#include "apps/command_line/command.h"

namespace embers::launch {

// A line that asks the command of `embers member` to end, as SIGTERM does.
inline constexpr char kAskToEnd[] = "end\n";

// The hidden command `embers member`: runs a command for a launcher on another host, whose ssh is at its
// standard input and output, and returns its exit status, or 128 + n. When the standard input ends, the
// command ends at once, with all that it has started; so it does when this process is killed.
int run_remote_member(const MemberOptions& options);

}  // namespace embers::launch
