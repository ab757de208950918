#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/door/secret.h"
#include "actors/transport/addresses/endpoint.h"
#include "apps/command_line/command.h"
#include "base/errors.h"
#include "client/joining/reach_master.h"
#include "client/owner/joined_owner.h"

// What the processes of a job that is spread over several have in common.
namespace embers {

// kInvalid naming a text that is not an address.
std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& texts);
// Whether only processes of this host reach it: a Unix socket, or a host whose addresses are all loopback.
bool is_of_this_host(const Endpoint& endpoint);

// Where a master listens that was not told: on the loopback. In a Slurm job, by the name of its node, or on
// every address where that name leads elsewhere, with the directory that members look into.
MasterOptions with_place(MasterOptions given);

// What a master proves itself with; `from_dir` makes the secret of its job directory, or finds it.
Credentials credentials(const AccessOptions& options, const std::function<Secret()>& from_dir);

// kInvalid when neither these options nor the environment say where the master is.
void check_location(const JoinOptions& options);
// How a member gets into its job: see client/joining/reach_master.h.
JobAccess find_job(const JoinOptions& options);

// How an owner of this process joins; kInvalid naming an option that is wrong. Raises the limit of open
// files: every worker has connections to every owner.
OwnerOptions owner_options(const JoinOptions& join, const std::vector<std::string>& listen = {},
                           const ReachedOptions& reached = {});

MasterLink reach_master(Transport& transport, const JobAccess& access, const JoinOptions& options,
                        wire::Role role);

// Ends a process that joined a job, after its transports were stopped: with the error, or successfully.
[[noreturn]] void end_member(const std::optional<Error>& error);

}  // namespace embers
