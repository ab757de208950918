#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/launch/members/starter.h"

namespace embers::launch {

// Child processes, each the leader of a session and process group of its own. When one ends, so does the rest
// of its group; when this process ends, however it does, all groups end (see Guard). What happens at the
// terminal of this process does not reach them.
//
// *Thread safety*: all members from the thread that made it, which must live as long as it.
class ProcessGroups {
 public:
  // `embers`: the program's path; its guard runs it. `slurm_job`: see Guard.
  explicit ProcessGroups(const std::string& embers, const std::string& slurm_job = "");
  // Ends all of them at once, and returns when they have gone.
  ~ProcessGroups();

  struct Child {
    Words words;              // the program, found in PATH, and what it is called with
    Environment environment;  // besides that of this process
    std::string log;          // standard error is appended to it; "": that of this process
    std::string output;       // new file for standard output; "": as standard error
    bool line = false;        // its standard input is a pipe from say(); otherwise there is nothing to read
  };
  // Throws kInvalid when it cannot be started.
  void start(const std::string& name, const Child& child);
  // Those that have ended since the last call. Does not wait.
  std::vector<std::pair<std::string, Ending>> ended();
  // The leaders that run, by name.
  std::map<std::string, pid_t> leaders() const;
  // What everything that it starts has in its environment (Guard::kMark).
  const std::string& mark() const;
  // To the leader alone.
  void signal(const std::string& name, int number);
  void say(const std::string& name, const std::string& text);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace embers::launch
