#include "apps/compute/job_servers.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

#include "storage/external/key_value_server.h"
#include "storage/update_rules/update_rule.h"

namespace embers {
namespace {

// What nobody knows yet, tables with a few slots, fits into what servers take by themselves.
uint64_t longest_value(const ModelSpec& model) {
  uint64_t floats = 0;
  for (const TableSpec& table : model.tables)
    floats = std::max<uint64_t>(
        {floats, table.dim, table.dim * storage::UpdateRule::make(table.update_rule)->slots().size()});
  return floats * sizeof(float);
}

}  // namespace

std::unique_ptr<OwnServers> provide_servers(MasterConfig& config, const std::optional<ServerPlace>& place) {
  auto& settings = config.job.storage;
  if (!config.model.has_embeddings() && !config.job.model_from_worker()) settings.backend = "memory";
  if (settings.backend == "memory") return nullptr;
  std::unique_ptr<OwnServers> own;
  if (settings.servers.empty()) {
    own = std::make_unique<OwnServers>(OwnServers::Options{settings.backend, settings.own_servers, place,
                                                           settings.memory_mb, settings.server_threads,
                                                           longest_value(config.model)});
    settings.servers = own->addresses();
    config.server_login = own->login();
    config.job.source.overrides.push_back("storage.servers=" + nlohmann::json(settings.servers).dump());
  } else if (const char* const password = std::getenv("EMBERS_REDIS_PASSWORD");
             password != nullptr && settings.backend == "redis") {
    config.server_login.password = password;
  }
  storage::connect_servers(settings.backend, settings.servers,
                           storage::server_timeouts(settings.server_timeout), config.server_login);
  return own;
}

}  // namespace embers
