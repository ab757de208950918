#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace embers::testing_support {

// Why there can be no Slurm cluster on this host; "" if there can be.
inline std::string no_slurm_because() {
  for (const char* program :
       {"munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd", "sbatch", "srun", "sacct"}) {
    bool there = false;
    for (const char* folder : {"/usr/bin/", "/usr/sbin/"})
      there |= std::filesystem::exists(std::string(folder) + program);
    if (!there) return std::string(program) + " is not installed (deploy/test.sh installs what is missing)";
  }
  return "";
}

#define SKIP_WITHOUT_SLURM() \
  if (!no_slurm_because().empty()) GTEST_SKIP() << no_slurm_because()

// A Slurm cluster of a test's own, by deploy/slurm/cluster.py: it ends with the test, however that ends.
// While it lives, Slurm's commands and the environment of this process mean this cluster.
class SlurmCluster {
 public:
  explicit SlurmCluster(int nodes = 3)
      : process_({"/usr/bin/python3", script(), "run", "--nodes", std::to_string(nodes), "--dir", dir(),
                  "--kill-wait", "20"},
                 folder_ / "cluster.log") {
    ready_ = wait_until([&] { return process_.has_printed("SLURM_CONF=") || process_.wait(0) != -1; }, 120) &&
             process_.has_printed("SLURM_CONF=");
    setenv("SLURM_CONF", (dir() + "/slurm.conf").c_str(), 1);
  }
  ~SlurmCluster() {
    process_.signal(SIGTERM);
    process_.wait(20);
    unsetenv("SLURM_CONF");
  }
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  bool ready() const { return ready_; }
  std::string log() const { return process_.output(); }

  // The node dies, with all that runs there.
  void crash(const std::string& node) const { run({"/usr/bin/python3", script(), "crash", dir(), node}); }
  void revive(const std::string& node) const { run({"/usr/bin/python3", script(), "revive", dir(), node}); }

  // What a command of Slurm printed.
  std::string run(const std::vector<std::string>& words) const {
    std::vector<std::string> command{"/usr/bin/timeout", "30"};
    command.insert(command.end(), words.begin(), words.end());
    std::filesystem::remove(folder_ / "command.log");  // it is written over, not emptied
    Process process(command, folder_ / "command.log");
    status_ = process.wait();
    return process.output();
  }
  int status() const { return status_; }  // of the last run()

  // The number of the job. `words` are sbatch's, and what comes after them.
  std::string submit(const std::vector<std::string>& words) const {
    std::vector<std::string> command{"sbatch", "--parsable"};
    command.insert(command.end(), words.begin(), words.end());
    std::string id = run(command);
    EXPECT_EQ(status_, 0) << id;
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return id;
  }

  // "RUNNING", "PENDING", ...; "" once Slurm has forgotten it.
  std::string state(const std::string& id) const {
    std::string state;
    const auto answered = [&] {  // a controller that is busy may let squeue wait in vain
      state = run({"squeue", "--noheader", "--job=" + id, "--states=all", "--format=%T"});
      return status_ == 0 || state.find("Invalid job id") != std::string::npos;
    };
    return wait_until(answered) && status_ == 0 ? state.substr(0, state.find('\n')) : "";
  }
  bool wait_for_state(const std::string& id, const std::string& wanted, double seconds = 60) const {
    return wait_until([&] { return state(id) == wanted; }, seconds);
  }
  // COMPLETED, FAILED, ... Says what became of it, step by step.
  std::string wait_for_end(const std::string& id, double seconds = 120) const {
    std::string last;
    wait_until(
        [&] {
          last = state(id);
          return last != "PENDING" && last != "RUNNING" && last != "COMPLETING" && last != "CONFIGURING";
        },
        seconds);
    return last;
  }

  // The steps of a job by name: "w0" -> "7.3 node2".
  std::string step(const std::string& id, const std::string& name) const {
    std::istringstream lines(run({"squeue", "--steps", "--noheader", "--job=" + id, "--format=%i %j %N"}));
    for (std::string step, what, node; lines >> step >> what >> node;)
      if (what == name) return step + " " + node;
    return "";
  }

  // For people who read the test's log.
  void show(const std::string& when) const {
    std::cout << "--- " << when << "\n" << run({"squeue"}) << run({"squeue", "--steps"}) << std::flush;
  }
  // Of this job, or several ("1,2"). Accounting comes late.
  void show_accounts(const std::string& id) const {
    const auto ended = [&] {
      const std::string states = run({"sacct", "-D", "-n", "-X", "-j", id, "-o", "State"});
      return status_ == 0 && !states.empty() && states.find("RUNNING") == std::string::npos;
    };
    wait_until(ended, 20);
    std::cout << run({"sacct", "-D", "-j", id, "-o",
                      "JobID%12,JobName%10,Partition,AllocCPUS,State%12,ExitCode,Start,End,NodeList"})
              << std::flush;
  }

 private:
  static std::string script() { return path_of(EMBERS_SLURM_CLUSTER); }
  std::string dir() const { return folder_ / "c"; }

  const TempDir folder_;
  Process process_;
  bool ready_ = false;
  mutable int status_ = 0;
};

}  // namespace embers::testing_support
