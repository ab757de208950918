// embers train: the whole job in this process.
#include <spdlog/spdlog.h>

#include "apps/compute/cluster.h"
#include "apps/compute/compute.h"
#include "apps/compute/job_servers.h"
#include "apps/compute/python_job.h"
#include "apps/process/runtime.h"
#include "base/log/standard_error.h"

namespace embers {

int train(const TrainOptions& train_options) {
  const JobOptions& options = train_options.job;
  const std::vector<int> cpus = parse_pin(train_options.pin);
  Console console(standard_error());
  const JobSetup setup = set_up(load_job(options), Purpose::kTrain, index_dir_of(options.output));
  const auto lock = lock_output(options);
  const auto config = master_config(setup, options);
  auto servers = provide_servers(*config, std::nullopt);
  if (servers)
    for (const std::string& line : servers->describe()) console.event(line);
  console.event(fmt::format(
      "job '{}': {} in {}, {}, {}, {}", setup.job.job.name, counted(config->train_records, "training record"),
      counted(config->train_minibatches, "minibatch", "es"),
      setup.runner ? counted(config->model.tables.size(), "table") : "model " + setup.job.model.python,
      counted(config->workers, "worker"), counted(config->shards, "shard")));
  const auto end = [&](const JobResult& result) {
    servers.reset();
    conclude(result, options.report, options.verbose);
  };
  if (!setup.runner) run_python_job(config, console, cpus, end);
  run_in_process(setup, config, console, cpus, end);
  return 0;
}

}  // namespace embers
