#include "apps/launch/slurm/commands/steps.h"

#include <sstream>

#include "apps/launch/slurm/commands/commands.h"
#include "base/errors.h"
#include "base/host.h"

namespace embers::launch {
namespace {

std::string short_name(const std::string& host) { return host.substr(0, host.find('.')); }

}  // namespace

// StepId=7.3 UserId=0 ... SrunHost:Pid=node1:4711 ...
std::vector<std::string> steps_started_by(const std::set<pid_t>& sruns, const std::string& host,
                                          const std::string& said) {
  const std::string id = "StepId=", origin = "SrunHost:Pid=";
  std::vector<std::string> steps;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string step, from;
    pid_t pid = 0;
    for (std::string word; words >> word;) {
      if (word.starts_with(id)) step = word.substr(id.size());
      const size_t colon = word.rfind(':');
      if (!word.starts_with(origin) || colon < origin.size()) continue;
      from = word.substr(origin.size(), colon - origin.size());
      std::istringstream(word.substr(colon + 1)) >> pid;
    }
    if (!step.empty() && sruns.contains(pid) && short_name(from) == short_name(host)) steps.push_back(step);
  }
  return steps;
}

void cancel_steps(const std::string& job, const std::set<pid_t>& sruns) {
  if (sruns.empty()) return;
  try {
    const SlurmAnswer said = run_slurm({"scontrol", "--oneliner", "show", "steps", job});
    std::vector<std::string> words{"scancel", "--quiet", "--signal=KILL"};
    const auto steps = steps_started_by(sruns, host_name(), said.output);
    words.insert(words.end(), steps.begin(), steps.end());
    if (!steps.empty()) run_slurm(words);
  } catch (const Error&) {  // what is left ends with the allocation
  }
}

}  // namespace embers::launch
