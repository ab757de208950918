#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/process/own_server.h"
#include "master/master.h"

namespace embers {

// Provides the servers that the job's storage.backend needs, before owners are made. Those of storage.servers
// must answer (else kUnreachable with host, port and reason). Without any, storage.own_servers servers are
// started, put into the config, and returned. A model without embedding layers needs none: its rows stay in
// memory.
std::vector<std::unique_ptr<OwnServer>> provide_servers(MasterConfig& config, const std::string& host);

}  // namespace embers
