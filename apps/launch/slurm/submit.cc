#include "apps/launch/slurm/submit.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "apps/launch/launch_dir.h"
#include "apps/launch/log_follower.h"
#include "apps/launch/process_groups.h"
#include "apps/launch/slurm/places.h"
#include "apps/launch/slurm/slurm_commands.h"
#include "base/errors.h"
#include "base/files/output_file.h"
#include "base/log/standard_error.h"

namespace embers::launch {
namespace {

constexpr auto kLook = std::chrono::milliseconds(200);

void say(const std::string& line) { standard_error().line(line); }

// What the script reads; see there.
Environment environment(const Plan& plan) {
  return {{"EMBERS", plan.program}, {"EMBERS_LAUNCHER", "1"}, {"EMBERS_JOB_DIR", plan.job_dir}};
}

std::string log_of(const Plan& plan, const std::string& id) {
  return fmt::format("{}/logs/slurm-{}.log", plan.job_dir, id);
}

// Shows the log of a job until it has ended.
int wait_for(const Plan& plan, const std::string& id) {
  LogFollower log([](const std::string&, const std::string& line) { say(line); });
  log.follow("job", log_of(plan, id));
  while (true) {
    log.poll();
    const SlurmAnswer state =
        run_slurm({"squeue", "--noheader", "--states=all", "--job=" + id, "--format=%T %r"});
    (void)state;
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

Words submission(const Plan& plan, const std::string& script) {
  const SchedulerOptions& o = plan.options.scheduler;
  const uint32_t room = std::max(plan.workers, o.room);
  Words words{"sbatch", "--parsable", "--job-name=" + plan.name,
              fmt::format("--ntasks={}", tasks_for(plan.shards, room, o.cpus_per_worker)),
              fmt::format("--cpus-per-task={}", o.cpus_per_worker)};
  if (o.nodes > 0) words.push_back(fmt::format("--nodes={}", o.nodes));
  const Words more = place_words(o);
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), {"--output=" + log_of(plan, "%j"), "--export=ALL", script});
  words.insert(words.end(), plan.options.words.begin(), plan.options.words.end());
  return words;
}

}  // namespace embers::launch
