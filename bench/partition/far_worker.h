#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/plan/worker.h"
#include "client/session.h"

namespace embers {

// A worker in a process of its own, which the words of `place` put on some host. `name`: of a file in
// `folder` that it may write, and `name`.* others. Keys are int64.
std::unique_ptr<plan::Worker> start_far_worker(
    const std::string& folder, const std::string& name, const client::WorkerOptions& options,
    const std::function<std::vector<std::string>(const std::vector<std::string>& command)>& place);

// That process: `embers-bench part puller FILE`.
void serve_far_worker(const std::string& file);

}  // namespace embers
