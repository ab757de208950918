#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/door/secret.h"
#include "actors/message_types.h"
#include "actors/transport/client.h"
#include "actors/transport/transport.h"
#include "client/joining/options.h"
#include "client/pipeline/session_actor.h"
#include "job/job.h"

// How a process comes to a job whose master runs elsewhere: it finds the job, reaches its master in a role,
// and learns from the master what the job is.
namespace embers {

// Where a job is, and what proves that a process belongs to it.
struct JobLocation {
  std::string master;   // its address; empty: the job directory says where it listens
  std::string job_dir;  // see actors/transport/addresses/job_dir.h; with an address, it only has the secret
  std::string secret_file;  // holds the secret, instead of the job directory
  bool insecure = false;    // no secret, even beyond this host
  std::chrono::duration<double> connect_timeout{20};
};

// Where these options say that the job is, or the environment; kInvalid, naming the options' type, when
// neither does, or the options name two places.
JobLocation location_of(const client::Options& options, const char* type);
// Where the environment of this process says that its job is: EMBERS_MASTER and EMBERS_JOB_DIR, or else Slurm
// (slurm.h). Nothing is taken from it when `given` names a master or a directory.
JobLocation with_environment(JobLocation given);
// The name that whoever started this process gave it: EMBERS_LABEL, or "". kInvalid for one that cannot be.
std::string label_from_environment();

// How a member gets into its job.
struct JobAccess {
  std::string master;   // "the master at ADDRESS" or "the master of 'DIR'", for messages
  std::string address;  // the same without "the master at"
  FindEndpoints find_master;
  Credentials credentials;
};

// What a process proves itself with; `from_dir` finds the secret of its job directory if that is where it is.
// kInvalid for a file that holds no secret, or that other users may read.
Credentials find_credentials(const std::string& secret_file, bool insecure,
                             const std::function<Secret()>& from_dir);

// Without an address, waits up to the connect timeout until a master has said there where it listens:
// kUnreachable if none does.
JobAccess find_job(const JobLocation& location);

// The master as this process reaches it, and what it says about the job.
struct MasterLink {
  MasterActor actor;
  std::string name;                      // JobAccess::master
  wire::Role role = wire::Role::READER;  // as which it is reached
  uint64_t run = 0;
  job::Job job;
  std::string index_dir;
  bool evaluates = false;    // a saved model, on the test set
  std::string version;       // of its embers
  bool wants_model = false;  // no worker has told it yet: see schema/messages/told_model.h
};

struct ReachOptions {
  wire::Role role = wire::Role::READER;
  std::chrono::duration<double> connect_timeout{20};
  std::vector<std::string> set = {};  // "section.key=value", added to the job
  caf::duration patience = caf::infinite;
};

// Connects and asks for the job. The transport has the credentials of `access`. kUnreachable when no master
// is there within the connect timeout; kDenied when one side does not know the other's secret; kTimeout when
// the master does not say what the job is within `patience`: it may be reading its data before it does.
MasterLink reach_master(Transport& transport, const JobAccess& access, const ReachOptions& options);

// After this time without progress a process cuts a connection: early enough for a peer that can connect
// again to be heard within job.heartbeat_timeout.
std::chrono::duration<double> connection_silence(const job::Job& job);

// Endpoints as messages have them.
std::vector<std::string> texts(const std::vector<Endpoint>& endpoints);

// Tells a session of another process than the master's who it is and how it reaches master and owners.
void connect_over(Transport& transport, const MasterLink& master, std::chrono::duration<double> timeout,
                  SessionConfig& config);

}  // namespace embers
