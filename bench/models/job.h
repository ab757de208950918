#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace embers {

// Runs a job as a user would by hand: a master, one shard and one worker, each a process of the program
// embers, talking through a Unix socket. Waits for their end; the processes end with this one. `dir` takes
// their logs and the report, which is returned. If the job fails, throws kInternal with what the master
// printed.
nlohmann::json run_as_processes(const std::string& job_file, const std::string& dir);

}  // namespace embers
