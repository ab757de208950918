#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace embers::launch {

// The steps that these sruns of the host have started, by what `scontrol --oneliner show steps` says.
std::vector<std::string> steps_started_by(const std::set<pid_t>& sruns, const std::string& host,
                                          const std::string& said);

// Ends these steps of the job at once, wherever they run. The sruns are processes of this host, which may
// have ended. Asks Slurm, so it takes some hundredths of a second, or several seconds where Slurm does not
// answer.
void cancel_steps(const std::string& job, const std::set<pid_t>& sruns);

}  // namespace embers::launch
