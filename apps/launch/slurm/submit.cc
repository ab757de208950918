#include "apps/launch/slurm/submit.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "apps/launch/members/launch_dir.h"
#include "apps/launch/members/log_follower.h"
#include "apps/launch/members/quoted.h"
#include "apps/launch/slurm/commands/commands.h"
#include "apps/launch/slurm/places.h"
#include "base/errors.h"
#include "base/files/output_file.h"
#include "base/log/standard_error.h"
#include "client/joining/reach_master.h"
#include "client/joining/slurm.h"

namespace embers::launch {
namespace {

constexpr auto kLook = std::chrono::milliseconds(200);  // at the log
constexpr int kLooksPerQuestion = 10;                   // to Slurm's controller

void say(const std::string& line) { standard_error().line(line); }

// What the script reads; see there.
Environment environment(const Plan& plan) {
  return {{"EMBERS", plan.program}, {"EMBERS_LAUNCHER", "1"}, {"EMBERS_JOB_DIR", plan.job_dir}};
}

std::string log_of(const std::string& job_dir, const std::string& id) {
  return fmt::format("{}/logs/slurm-{}.log", job_dir, id);
}

// Beside the data and the job file, which other hosts reach as well.
std::string make_job_dir() {
  std::string name = (std::filesystem::current_path() / "embers-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)  // of mode 700
    fail(ErrorCode::kInvalid,
         "cannot make a job directory '{}': {}; give --job-dir, a directory that all nodes share", name,
         std::strerror(errno));
  return name;
}

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

// What this process was called with, but for --dry-run.
Words to_submit(const Words& words) {
  const auto command = std::find(words.begin(), words.end(), "--");
  Words submitted;
  std::remove_copy_if(words.begin(), command, std::back_inserter(submitted),
                      [](const std::string& word) { return word.starts_with("--dry-run"); });
  submitted.insert(submitted.end(), command, words.end());
  return submitted;
}

// "KEY=VALUE" of `scontrol show job`.
std::string value_of(const std::string& text, const std::string& key) {
  const size_t at = text.find(" " + key + "=");
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size() + 2;
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

// How a job ended, once it has: its exit status, or 1 where Slurm ended it.
std::optional<int> status_of(const std::string& id) {
  const SlurmAnswer job = run_slurm({"scontrol", "--oneliner", "show", "job", id});
  if (job.errors.find("Invalid job id") != std::string::npos) {
    say(fmt::format("Slurm does not know of job {} any more, so it has ended", id));
    return 1;
  }
  if (job.status != 0) return std::nullopt;  // the controller may be away for a moment
  const std::string state = value_of(" " + job.output, "JobState");
  for (const char* const on : {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING",
                               "SIGNALING", "STAGE_OUT", "COMPLETING", "REQUEUED", "SPECIAL_EXIT"})
    if (state == on) return std::nullopt;
  if (state == "PREEMPTED" && value_of(" " + job.output, "Requeue") != "0") return std::nullopt;
  if (state == "COMPLETED") return 0;
  say(fmt::format("job {} ended: {}", id, state));
  const int status = std::atoi(value_of(" " + job.output, "ExitCode").c_str());  // "STATUS:SIGNAL"
  return status == 0 ? 1 : status;
}

// Holds the number of the job that was submitted with this directory last.
std::string number_file(const std::string& job_dir) { return job_dir + "/slurm-job"; }

// A job in the queue has no launcher yet, or none just now, that could keep the directory to itself.
void check_not_queued(const std::string& job_dir) {
  std::string id;
  std::ifstream(number_file(job_dir)) >> id;
  if (id.empty()) return;
  const SlurmAnswer queue = run_slurm({"squeue", "--noheader", "--jobs=" + id, "--format=%T"});
  if (queue.status != 0 || queue.first_line().empty() || queue.first_line() == "COMPLETING") return;
  fail(ErrorCode::kInvalid,
       "job {} of Slurm ({}) uses job directory '{}': choose another one, or wait until that job has ended "
       "(scancel {} ends it)",
       id, queue.first_line(), job_dir, id);
}

int wait_for(const Plan& plan, const std::string& id) {
  LogFollower log([](const std::string&, const std::string& line) { say(line); });
  log.follow("job", log_of(plan.job_dir, id));
  for (int i = 1;; ++i) {
    const std::optional<int> status = i % kLooksPerQuestion == 0 ? status_of(id) : std::nullopt;
    status ? log.finish("job") : log.poll();
    if (status) return *status;
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

bool submits(const LaunchOptions& options) { return options.scheduler.slurm && !slurm_job(); }

std::string job_dir_in_slurm(const LaunchOptions& options) {
  if (!options.master.access.job_dir.empty()) return options.master.access.job_dir;
  const std::string dir = with_environment(JobLocation()).job_dir;
  const auto job = slurm_job();  // EMBERS_MASTER alone says where another job is
  return dir.empty() && job ? job->job_dir() : dir;
}

Words submission(const Plan& plan, const std::string& script) {
  const SchedulerOptions& o = plan.options.scheduler;
  const uint32_t room = std::max(plan.workers, o.room);
  Words words{"sbatch", "--parsable", "--job-name=" + plan.name,
              fmt::format("--ntasks={}", tasks_for(plan.shards, room, o.cpus_per_worker)),
              fmt::format("--cpus-per-task={}", o.cpus_per_worker)};
  if (o.nodes > 0) words.push_back(fmt::format("--nodes={}", o.nodes));
  const Words more = place_words(o);
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), {"--output=" + log_of(as_pattern(plan.job_dir), "%j"), "--export=ALL", script});
  const Words again = to_submit(plan.options.words);
  words.insert(words.end(), again.begin(), again.end());
  return words;
}

namespace {

// The number of Slurm's job.
std::string submitted(const Plan& plan) {
  const std::string script = plan.job_dir + "/embers.sbatch";
  write_file(script, kBatchScript);
  for (const auto& [name, value] : environment(plan)) ::setenv(name.c_str(), value.c_str(), 1);
  const SlurmAnswer answer = run_slurm(submission(plan, script));
  if (answer.status == 127)
    fail(ErrorCode::kInvalid,
         "--scheduler slurm: there is no sbatch in PATH; is this a host of a Slurm cluster?");
  if (answer.status != 0)
    fail(ErrorCode::kInvalid, "Slurm refuses the job: {}",
         answer.errors.empty() ? fmt::format("sbatch ended with status {}", answer.status)
                               : trimmed(answer.errors));
  return answer.first_line().substr(0, answer.first_line().find(';'));
}

}  // namespace

int submit(Plan plan) {
  std::string given = plan.options.master.access.job_dir;
  if (plan.options.dry_run) {
    plan.job_dir = given.empty() ? "JOB_DIR" : given;
    std::string line;
    for (const auto& [name, value] : environment(plan)) line += name + "=" + quoted(value) + " ";
    fmt::print("{}{}\n", line, quoted(submission(plan, "embers.sbatch")));
    return 0;
  }
  {
    const LaunchDir dir(given.empty() ? make_job_dir() : given);  // no other launcher uses it
    plan.job_dir = dir.path();
    check_not_queued(plan.job_dir);
  }
  std::string id;
  try {
    id = submitted(plan);
  } catch (const Error&) {
    std::error_code ignored;
    if (given.empty()) std::filesystem::remove_all(plan.job_dir, ignored);  // nobody will use it
    throw;
  }
  say(fmt::format("job {} ('{}') is submitted; job directory {}", id, plan.name, plan.job_dir));
  try {
    write_file(number_file(plan.job_dir), id + "\n");
  } catch (const Error& e) {
    say(fmt::format("while it waits in the queue, nothing keeps other launchers from that directory: {}",
                    e.what()));
  }
  if (plan.options.scheduler.wait) return wait_for(plan, id);
  fmt::print("{}\n", id);
  return 0;
}

}  // namespace embers::launch
