#pragma once

#include <netinet/in.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/door/secret.h"

namespace embers {

// What simulated members know of their job, and say about themselves when they join.
struct ControlJob {
  sockaddr_in master{};
  Secret secret;
  uint64_t run = 0;
  std::vector<std::string> model, numeric, settings;  // of wire::JoinRequest
  // What workers have said to be done, as owners would have counted it.
  std::shared_ptr<std::atomic<uint64_t>> minibatches = std::make_shared<std::atomic<uint64_t>>(0);
};

// `embers status --json`, as an operator types it.
class StatusCommand {
 public:
  // Of the job in this directory.
  explicit StatusCommand(const std::string& job_dir);
  ~StatusCommand();

  bool is_running();
  // Once it has ended: how many members it shows. Fails with what it printed, unless it ended well.
  size_t members();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// A master in a process of its own: `embers master`, as users start it, with a job directory and its secret.
class MasterProcess {
 public:
  // Writes a job into the directory and starts its master; the job begins with so many owners and workers.
  MasterProcess(const std::string& dir, size_t owners, size_t workers, uint32_t minibatches_per_lease);
  ~MasterProcess();
  MasterProcess(const MasterProcess&) = delete;
  MasterProcess& operator=(const MasterProcess&) = delete;

  // Waits until the master says what its job is.
  std::shared_ptr<const ControlJob> job() const;

  std::string job_dir() const;

  double cpu_seconds() const;                            // of all its threads so far
  std::map<std::string, double> thread_seconds() const;  // the same by the names of the threads
  size_t resident_bytes() const;
  size_t most_resident_bytes() const;  // since forget_most()
  void forget_most();
  size_t open_files() const;
  // Asks it to end (SIGTERM).
  void stop();
  bool is_running() const;
  // Once it has ended: fails with what it printed, unless it ended well and lost nobody. Returns its report.
  std::string report() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace embers
