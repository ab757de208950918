#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "actors/owner/owner.h"
#include "apps/compute/console.h"
#include "apps/compute/job_setup.h"
#include "worker/worker.h"

namespace embers {

// A whole job in this process: owners, master and workers, the same actors as in a job of many processes.
// Runs it to its end; SIGINT and SIGTERM stop it gracefully. Shard actors are bound to `cpus` in turn; none:
// they are not bound. `conclude` gets the result. When a worker hangs at the job's end, this ends the process
// after it.
void run_in_process(const JobSetup& setup, std::shared_ptr<MasterConfig> config, Console& console,
                    const std::vector<int>& cpus, const std::function<void(const JobResult&)>& conclude);

}  // namespace embers
