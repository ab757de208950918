#include "apps/launch/slurm/commands/steps.h"

#include <fmt/ranges.h>

#include <sstream>

#include "apps/launch/slurm/commands/commands.h"
#include "base/errors.h"
#include "base/host.h"

namespace embers::launch {
namespace {

std::string short_name(const std::string& host) { return host.substr(0, host.find('.')); }

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

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

void cancel(const std::string& job, const std::vector<std::string>& steps, std::chrono::milliseconds most) {
  if (steps.empty()) return;
  std::vector<std::string> words{"scancel", "--quiet", "--signal=KILL"};
  words.insert(words.end(), steps.begin(), steps.end());
  if (run_slurm(words, most).status == SlurmAnswer::kTookTooLong)
    fail(ErrorCode::kTimeout,
         "scancel did not answer within {:g} s, so steps of Slurm's job {} may still run: {}. When Slurm "
         "answers again, end them with 'scancel --signal=KILL {}', or the whole job with 'scancel {}'",
         seconds(most), job, fmt::join(steps, ", "), fmt::join(steps, " "), job);
}

void cancel_steps(const std::string& job, const std::set<pid_t>& sruns, std::chrono::milliseconds most) {
  if (sruns.empty()) return;
  const SlurmAnswer said = run_slurm({"scontrol", "--oneliner", "show", "steps", job}, most);
  if (said.status == SlurmAnswer::kTookTooLong)
    fail(ErrorCode::kTimeout,
         "scontrol did not answer within {:g} s, so steps of Slurm's job {} may still run: those whose srun "
         "was process {} of {}. When Slurm answers again, 'scontrol show steps {}' lists steps with their "
         "sruns, and 'scancel --signal=KILL STEP' ends one; 'scancel {}' ends the whole job",
         seconds(most), job, fmt::join(sruns, ", "), host_name(), job, job);
  cancel(job, steps_started_by(sruns, host_name(), said.output), most);
}

std::string further_comment(const std::string& job, const std::string& mark) {
  return "embers " + job + " " + mark;
}

void cancel_further_jobs(const std::string& job, const std::string& mark, std::chrono::milliseconds most) {
  const SlurmAnswer said = run_slurm({"squeue", "--me", "--noheader", "--format=%i %k"}, most);
  std::vector<std::string> words{"scancel", "--quiet"};
  for (const std::string& line : said.lines()) {
    const size_t space = line.find(' ');
    if (space != std::string::npos && line.substr(space + 1) == further_comment(job, mark))
      words.push_back(line.substr(0, space));
  }
  const bool any = words.size() > 2;
  if (said.status == SlurmAnswer::kTookTooLong ||
      (any && run_slurm(words, most).status == SlurmAnswer::kTookTooLong))
    fail(ErrorCode::kTimeout,
         "Slurm did not answer within {:g} s, so jobs of workers beyond the allocation may still be there: "
         "'squeue --me --format=\"%i %k\"' lists them with the comment '{}', and scancel ends them",
         seconds(most), further_comment(job, mark));
}

}  // namespace embers::launch
