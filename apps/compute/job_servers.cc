#include "apps/compute/job_servers.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "storage/external/key_value_server.h"
#include "storage/update_rules/update_rule.h"

namespace embers {
namespace {

uint64_t longest_value(const ModelSpec& model) {
  uint64_t floats = 0;
  for (const TableSpec& table : model.tables)
    floats = std::max<uint64_t>(
        {floats, table.dim, table.dim * storage::UpdateRule::make(table.update_rule)->slots().size()});
  return floats * sizeof(float);
}

}  // namespace

std::vector<std::unique_ptr<OwnServer>> provide_servers(MasterConfig& config, const std::string& host) {
  auto& settings = config.job.storage;
  if (!config.model.has_embeddings()) settings.backend = "memory";
  if (settings.backend == "memory") return {};
  std::vector<std::unique_ptr<OwnServer>> own;
  if (settings.servers.empty()) {
    for (uint32_t i = 0; i < settings.own_servers; ++i) {
      own.push_back(OwnServer::start({settings.backend, host, settings.memory_mb, settings.server_threads,
                                      longest_value(config.model)}));
      settings.servers.push_back(own.back()->address());
    }
    config.job.source.overrides.push_back("storage.servers=" + nlohmann::json(settings.servers).dump());
  }
  storage::connect_servers(settings.backend, settings.servers,
                           storage::server_timeouts(settings.server_timeout));
  return own;
}

}  // namespace embers
