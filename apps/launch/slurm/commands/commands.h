#pragma once

#include <string>
#include <vector>

#include "apps/command_line/command.h"
#include "apps/launch/members/starter.h"

namespace embers::launch {

// What a command of Slurm's said.
struct SlurmAnswer {
  int status = 0;  // its exit status; 127 when there is no such command
  std::string output, errors;

  std::vector<std::string> lines() const;  // of its output
  std::string first_line() const;
};

// Runs it to its end, which takes some hundredths of a second, or five seconds where Slurm's controller does
// not answer.
SlurmAnswer run_slurm(const Words& words);

// The path as sbatch's --output takes it, where % has a meaning.
std::string as_pattern(const std::string& path);

// sbatch's words for where a job runs, and for how long.
Words place_words(const SchedulerOptions& options);

}  // namespace embers::launch
