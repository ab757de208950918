#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "apps/compute/console.h"
#include "master/master.h"

namespace embers {

// A job whose model is a Python module, on this host: master and owners in this process, each worker a Python
// process, which ends with this one. Runs it to its end; SIGINT and SIGTERM stop it gracefully. Owners' shard
// actors are bound to `cpus` in turn; none: they are not bound. `conclude` gets the result, then the process
// ends.
[[noreturn]] void run_python_job(const std::shared_ptr<MasterConfig>& config, Console& console,
                                 const std::vector<int>& cpus,
                                 const std::function<void(const JobResult&)>& conclude);

}  // namespace embers
