#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/command_line/command.h"
#include "apps/launch/members/starter.h"

namespace embers::launch {

// What a command of Slurm's said.
struct SlurmAnswer {
  static constexpr int kTookTooLong = 124;  // as of timeout(1)
  int status = 0;  // its exit status; 127 when there is no such command, or kTookTooLong
  std::string output, errors;

  std::vector<std::string> lines() const;  // of its output
  std::string first_line() const;
};

// A command of Slurm's that runs beside this process: most ask Slurm's controller, which may be slow. Killed
// with this process, and with the thread that made it.
class SlurmCommand {
 public:
  // Starts it. It is killed once it has run for so long; never, if that is not said. kInvalid when nothing
  // can be started.
  explicit SlurmCommand(const Words& words, std::optional<std::chrono::milliseconds> most = {});
  ~SlurmCommand();  // kills it, if it still runs
  SlurmCommand(const SlurmCommand&) = delete;
  SlurmCommand& operator=(const SlurmCommand&) = delete;

  // What it said, once it has ended. Does not wait.
  std::optional<SlurmAnswer> answer();
  SlurmAnswer wait();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// Runs it to its end, which takes some hundredths of a second, or many seconds where Slurm's controller is
// slow. `most`: as SlurmCommand's.
SlurmAnswer run_slurm(const Words& words, std::optional<std::chrono::milliseconds> most = {});

// The path as sbatch's --output takes it, where % has a meaning.
std::string as_pattern(const std::string& path);

// sbatch's words for where a job runs, and for how long.
Words place_words(const SchedulerOptions& options);
// The same for a further job, of one worker: without what is said of the allocation's size, its nodes, its
// signal and its turn.
Words place_words_of_one(const SchedulerOptions& options);

}  // namespace embers::launch
