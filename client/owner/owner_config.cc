#include "client/owner/owner_config.h"

#include "storage/external/key_value_server.h"

namespace embers {

OwnerConfig owner_config(const job::Job& job, uint64_t run, uint32_t number, std::vector<TableSpec> tables,
                         OwnerMap map) {
  OwnerConfig owner;
  owner.job = run;
  owner.number = number;
  owner.seed = job.job.seed;
  owner.sync = job.training.mode == job::Mode::kSync;
  owner.staleness_modulation = job.training.staleness_modulation;
  owner.skip_bad_gradients = job.training.skip_bad_gradients;
  owner.tables = std::move(tables);
  owner.map = std::move(map);
  owner.backend = job.storage.backend;
  owner.servers = job.storage.servers;
  owner.timeouts = storage::server_timeouts(job.storage.server_timeout);
  owner.external = {job.job.name, run, number, job.storage.journal};
  return owner;
}

}  // namespace embers
