#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/process/own_servers.h"
#include "master/master.h"

namespace embers {

// Provides the servers that the job's storage.backend needs, before owners are made. Those of storage.servers
// must answer (else kUnreachable with address and reason); Redis gets the password in $EMBERS_REDIS_PASSWORD,
// if any. Without any, storage.own_servers servers are started, at this place or (without one) where only
// this host reaches them; they are put into the config, and returned. A model without embedding layers needs
// none: its rows stay in memory. Null where none were started.
std::unique_ptr<OwnServers> provide_servers(MasterConfig& config, const std::optional<ServerPlace>& place);

}  // namespace embers
