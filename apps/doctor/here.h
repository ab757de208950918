#pragma once

#include <string>
#include <vector>

#include "apps/command_line/command.h"
#include "apps/doctor/findings.h"
#include "job/job.h"

namespace embers {

// Whether the job's data files are on this host.
void examine_files(const job::Job& job, bool evaluates, Findings& findings);

// Whether a worker on this host would be let in: what `embers-compute examine` says about data, model and
// numeric settings, beside what the master says.
void examine_worker(const JoinOptions& join, const std::vector<std::string>& settings,
                    const std::vector<std::string>& numeric, bool sync, Findings& findings);

// The two lists differ in the lines that are here but not there.
std::vector<std::string> missing_in(const std::vector<std::string>& there,
                                    const std::vector<std::string>& here);

}  // namespace embers
