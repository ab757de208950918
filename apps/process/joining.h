#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/message_types.h"
#include "actors/transport/client.h"
#include "actors/transport/endpoint.h"
#include "actors/transport/transport.h"
#include "apps/command_line/command.h"
#include "base/errors.h"
#include "job/job.h"

// What the processes of a job that is spread over several have in common.
namespace embers {

// From texts to endpoints, and back; kInvalid naming a text that is not an address.
std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& texts);
std::vector<std::string> texts(const std::vector<Endpoint>& endpoints);
// Whether only processes of this host reach it: a Unix socket, or a host whose addresses are all loopback.
bool is_of_this_host(const Endpoint& endpoint);

// What a process proves itself with, beside a master's job directory or as a member; `from_dir` finds the
// secret of the directory if that is where it is. kInvalid for a file that holds no secret, or that other
// users may read.
Credentials credentials(const AccessOptions& options, const std::function<Secret()>& from_dir);

// How a member gets into its job.
struct JobAccess {
  std::string master;   // "the master at ADDRESS" or "the master of 'DIR'", for messages
  std::string address;  // the same without "the master at"
  FindEndpoints find_master;
  Credentials credentials;
};

// With --job-dir, waits up to options.connect_timeout until a master has said there where it listens:
// kUnreachable if none does. kInvalid for options that do not say where the master is.
JobAccess find_job(const JoinOptions& options);

// After this time without progress a process cuts a connection: early enough for a peer that can connect
// again to be heard within job.heartbeat_timeout.
std::chrono::duration<double> connection_silence(const job::Job& job);

// The master as this process reaches it, and what it says about the job.
struct MasterLink {
  MasterActor actor;
  uint64_t run = 0;
  job::Job job;
  std::string index_dir;
  bool evaluates = false;  // a saved model, on the test set
};

// Connects, which may take options.connect_timeout, and asks for the job. kUnavailable when there is no
// master.
MasterLink reach_master(Transport& transport, const JobAccess& access, const JoinOptions& options,
                        wire::Role role);

// Ends a process that joined a job, after its transports were stopped: with the error, or successfully.
[[noreturn]] void end_member(const std::optional<Error>& error);

}  // namespace embers
