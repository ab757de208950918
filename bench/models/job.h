#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace embers {

struct JobShape {
  std::string model, layers;  // of the job file
  uint64_t seed = 1;
};

// A job file for the data that data::write_criteo() makes in `dir`.
std::string criteo_job(const JobShape& shape, const std::string& dir, uint32_t epochs, uint32_t prefetch);

std::string contents(const std::string& path);

// Holds the data and what the processes write; gone at the end.
struct BenchFolder {
  BenchFolder();
  ~BenchFolder();
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  std::string path;
};

// Where the processes of a job are, if not on this host, talking through a Unix socket.
struct Placement {
  std::vector<std::string> master, members;  // options of the master; of the shard and the worker
  // The words that run the command of a role ("master", "shard", "worker").
  std::function<std::vector<std::string>(const std::string& role, const std::vector<std::string>& command)>
      place;
};

// Runs a job as a user would by hand: a master, one shard and one worker, each a process of the program
// embers. Waits for their end; the processes end with this one. `dir` takes
// their logs and the report, which is returned. If the job fails, throws kInternal with what the master
// printed.
nlohmann::json run_as_processes(const std::string& job_file, const std::string& dir,
                                const Placement& placement = {});

// A master and a shard process of a job whose model comes with its first worker. They end with this object.
class OpenJob {
 public:
  // Their logs go to `dir`.
  OpenJob(const std::string& job_file, const std::string& dir);
  ~OpenJob();
  OpenJob(const OpenJob&) = delete;
  OpenJob& operator=(const OpenJob&) = delete;
  const std::string& address() const;
  std::vector<pid_t> processes() const;

 private:
  struct Processes;
  const std::unique_ptr<Processes> processes_;
};

}  // namespace embers
