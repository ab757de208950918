#pragma once

#include <string>

#include "apps/command_line/command.h"
#include "apps/launch/members/starter.h"

namespace embers::launch {

// What the launcher knows before it starts anybody.
struct Plan {
  LaunchOptions options;
  uint32_t shards = 0, workers = 0;  // to begin with
  bool shards_return = false;        // a shard that is lost may be started again
  bool runs_python = false;          // embers worker becomes a Python process
  std::string name;                  // of the job
  std::string job_dir;               // absolute
  std::string program;               // embers on this host
};

// Reads the job file as the master will; its mistakes are found here. kInvalid for options that do not go
// together.
Plan make_plan(const LaunchOptions& options);

// Where the master writes its results.
std::string results_file(const Plan& plan);

// How to run a member. `master`: where it listens, as members reach it; of no account for the master itself.
// Members on other hosts need no job directory: they are told the address, and the secret in a way of the
// starter's.
Order order_for(const Plan& plan, const Member& member, const std::string& master);

// The line that starts it by hand.
std::string command_line(const Order& order, const Words& words);

}  // namespace embers::launch
