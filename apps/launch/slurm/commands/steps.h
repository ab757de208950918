#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

namespace embers::launch {

// The steps that these sruns of the host have started, by what `scontrol --oneliner show steps` says.
std::vector<std::string> steps_started_by(const std::set<pid_t>& sruns, const std::string& host,
                                          const std::string& said);

// How long a command that ends steps may take. Where Slurm's controller hangs, so does scancel, and whoever
// ends members would wait with it.
constexpr std::chrono::milliseconds kMostOfCancelling = std::chrono::seconds(10);

// Ends these steps of the job at once, wherever they run. Takes some hundredths of a second, and `most` where
// Slurm does not answer: kTimeout then, with the steps that may still run and how to end them. kInvalid when
// scancel cannot be started.
void cancel(const std::string& job, const std::vector<std::string>& steps,
            std::chrono::milliseconds most = kMostOfCancelling);

// The same for the steps that these sruns have started. The sruns are processes of this host, which may have
// ended. Asks Slurm first for their steps, which takes `most` at most, too.
void cancel_steps(const std::string& job, const std::set<pid_t>& sruns,
                  std::chrono::milliseconds most = kMostOfCancelling);

// What marks a job beyond the allocation of `job` as a worker of the launcher with this mark.
std::string further_comment(const std::string& job, const std::string& mark);
// Ends those jobs, also where they wait in the queue. kTimeout as above.
void cancel_further_jobs(const std::string& job, const std::string& mark,
                         std::chrono::milliseconds most = kMostOfCancelling);

}  // namespace embers::launch
