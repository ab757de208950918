#pragma once

#include <sys/types.h>

#include <array>
#include <vector>

#include "bench/harness/contest.h"

namespace embers {

// The two ways in which Linux lets threads run that ask for no priority. With kBatch, a thread that wakes
// does not interrupt the one that runs.
enum class Policy { kOther, kBatch };
inline constexpr std::array kPolicies{Policy::kOther, Policy::kBatch};
const char* name(Policy policy);

// This process and all that it has started, and what they have, and so on.
std::vector<pid_t> with_descendants(pid_t process);

// Puts all threads of these processes under the policy; threads that they start later inherit it.
void set_policy(const std::vector<pid_t>& processes, Policy policy);
void set_policy_of_this_process(Policy policy);  // without what it has started

// Whether these processes may run. One that polls while it has nothing to do would take its cores from
// others.
void let_run(const std::vector<pid_t>& processes, bool may_run);

// Of all threads of these processes so far.
double cpu_seconds(const std::vector<pid_t>& processes);
double cpu_seconds_of_this_process();
// CPU seconds of this thread: what other processes do meanwhile does not count, page faults do.
double cpu_seconds_of_this_thread();

// Adds a configuration once for each policy ("NAME, batch"); each try begins by putting the side under it.
void add_with_policies(Contest& contest, const std::string& side, const std::string& configuration,
                       const std::function<void(Policy)>& set, const Contest::Try& run);

}  // namespace embers
