#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/transport/endpoint.h"
#include "actors/transport/transport.h"
#include "apps/command_line/command.h"
#include "base/errors.h"
#include "client/reach_master.h"

// What the processes of a job that is spread over several have in common.
namespace embers {

// From texts to endpoints, and back; kInvalid naming a text that is not an address.
std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& texts);
std::vector<std::string> texts(const std::vector<Endpoint>& endpoints);

// Connects, which may take options.connect_timeout, and asks for the job. kUnavailable when there is no
// master.
MasterLink reach_master(Transport& transport, const JoinOptions& options);

// Ends a process that joined a job, after its transports were stopped: with the error, or successfully.
[[noreturn]] void end_member(const std::optional<Error>& error);

}  // namespace embers
