#pragma once

#include <sys/types.h>

#include <boost/process/child.hpp>
#include <string>

namespace embers::launch {

// A process that outlives this one just long enough to end everything that it has started, however it ends:
// process groups, what runs below a shell or was forked by a member included. It reads a pipe that only this
// process writes to, and begins when nobody holds the other end any more:
//
//   +GROUP   a line: from now on this process group is to be ended
//   -GROUP   it is gone
//
// Of groups that are led by an srun it ends the steps, too: with srun alone, what runs on other nodes would
// go on until the allocation ends.
//
// After the groups it ends every process that has kMark=MARK in its environment, and so what has left its
// group, too. Those have a moment to end by themselves, as whoever cleans up after a process does.
class Guard {
 public:
  static constexpr char kMark[] = "EMBERS_LAUNCH";

  // `embers`: the program's path. `slurm_job`: whose steps the groups' leaders may have started, or "".
  Guard(const std::string& embers, const std::string& mark, const std::string& slurm_job = "");
  // Returns when all groups and marked processes have gone.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Whether its process runs. Somebody may have killed it.
  bool lives();
  void add(pid_t group) const;
  void remove(pid_t group) const;
  // Between fork and exec: adds the group of this process. No process is without its guard for a moment.
  void add_this_process() const;

 private:
  void write(char sign, pid_t group) const;

  int line_ = -1;
  boost::process::child process_;
};

// What the process does (the hidden command `embers guard MARK [--slurm-job ID]`); its standard input is the
// pipe.
int run_guard(const std::string& mark, const std::string& slurm_job);

}  // namespace embers::launch
