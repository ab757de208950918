#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/message_types.h"
#include "actors/transport/transport.h"
#include "client/session_actor.h"
#include "job/job.h"

// How a process comes to a job whose master runs elsewhere.
namespace embers {

// The master as this process reaches it, and what it says about the job.
struct MasterLink {
  MasterActor actor;
  uint64_t run = 0;
  job::Job job;
  std::string index_dir;
};

// Connects to the master at this address and asks for the job, to which `set` ("section.key=value") is added.
// kUnavailable when no master is there within the connect timeout; kTimeout when it does not say what the job
// is within `patience`: it may be reading its data before it does.
struct ReachOptions {
  std::string master;
  std::chrono::duration<double> connect_timeout;
  std::vector<std::string> set = {};
  caf::duration patience = caf::infinite;
};
MasterLink reach_master(Transport& transport, const ReachOptions& options);

// Tells a session of another process than the master's how it reaches master and owners, and who it is.
void connect_over(Transport& transport, const MasterLink& master, const std::string& address,
                  std::chrono::duration<double> timeout, SessionConfig& config);

}  // namespace embers
