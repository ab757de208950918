// embers launch, and what it starts.
#include <cstdint>
#include <string>

#include "apps/command_line/commands.h"
#include "job/sections/training_section.h"

namespace embers {
namespace {

constexpr int kMostCores = 65'536;  // of a worker

// As kNotEmpty, and more than blanks.
const CLI::Validator kNotBlank(
    [](const std::string& text) {
      return std::string(text.find_first_not_of(" \t") == std::string::npos ? "is empty" : "");
    },
    "", "not blank");

// As ssh takes it; without the spaces around it. A word with '-' would be an option.
const CLI::Validator kHost(
    [](std::string& text) {
      const size_t begin = text.find_first_not_of(' ');
      text = begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
      if (text.empty()) return std::string("is empty");
      const bool good = text.front() != '-' && text.find_first_of(" \t\n") == text.npos;
      return good ? std::string() : "'" + text + "' is not a host";
    },
    "HOST", "host");

// Of another program. Any other word would be taken for the script to run.
const CLI::Validator kAnOption(
    [](const std::string& text) {
      return text.starts_with("-") ? std::string() : "'" + text + "' is not an option: it begins without -";
    },
    "OPTION");

const CLI::Validator kScheduler(
    [](const std::string& text) {
      return text == "slurm" ? std::string() : "unknown scheduler '" + text + "'; known: slurm";
    },
    "slurm", "scheduler");

void add_scheduler(CLI::App& launch, SchedulerOptions& o) {
  CLI::Option* const scheduler = launch.add_option_function<std::string>(
      "--scheduler", [&o](const std::string&) { o.slurm = true; },
      "slurm: submit the job; in an allocation, run it there");
  scheduler->check(kScheduler);
  const auto add = [&](const char* name, auto& value, const char* text) {
    return launch.add_option(name, value, text)->needs(scheduler);
  };
  add("--partition", o.partition, "Slurm's partition")->check(kNotEmpty);
  add("--account", o.account, "account that Slurm charges")->check(kNotEmpty);
  add("--time", o.time, "time limit, as sbatch has it; then the job saves and is queued again")
      ->check(kNotEmpty);
  add("--nodes", o.nodes, "nodes of the allocation (default: as Slurm chooses)")
      ->check(CLI::Range(1, INT32_MAX));
  add("--cpus-per-worker", o.cpus_per_worker, "cores of a worker; master and shards have one each")
      ->check(CLI::Range(1, kMostCores))
      ->capture_default_str();
  add("--room", o.room,
      "workers that the allocation has room for (default: --workers); others run in further jobs")
      ->check(CLI::Range(1, job::kMostWorkers));
  add("--sbatch", o.sbatch, "another option for sbatch, such as --sbatch=--exclusive (may be repeated)")
      ->allow_extra_args(false)
      ->check(kAnOption);
  launch.add_flag("--wait", o.wait, "wait until the job has ended: show its log, return its exit status")
      ->needs(scheduler);
}

}  // namespace

void add_launch(CLI::App& app, Chosen& chosen) {
  const auto [launch, options] =
      add_command<LaunchOptions>(app, chosen, "launch", "start all processes of a job and look after them");
  const auto [shards, workers] = add_master_options(*launch, options.master);
  shards->description("shards to start, a process each (default: storage.shards)")
      ->check(CLI::Range(1, kMostOwners));
  workers
      ->description(
          "workers to start (default: training.workers); embers scale changes their number while the job "
          "runs")
      ->check(CLI::Range(1, job::kMostWorkers));
  options.master.listen.clear();
  launch
      ->add_option("--listen", options.master.listen,
                   "HOST:PORT or unix:/path for the master (may be repeated; default: a free port of the "
                   "loopback, or with --hosts of all addresses)")
      ->allow_extra_args(false);
  add_reached(*launch, options.master.reached, "members");
  add_access(*launch, options.master.access,
             "directory of the job: address, secret, and logs (default: a temporary one)");
  launch
      ->add_option("--max-restarts", options.max_restarts,
                   "how often in a row a member that got nothing done is started again")
      ->capture_default_str();
  launch->add_flag("--owner", options.owner,
                   "workers hold the rows themselves, as embers worker --owner does: no shards are started");
  launch->add_flag("--dry-run", options.dry_run, "print the commands that would be run, and run none");
  CLI::Option* const hosts =
      launch
          ->add_option("--hosts", options.hosts,
                       "hosts for shards and workers, in turn: names for ssh, separated by commas")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->transform(kHost);
  launch->add_option("--ssh", options.ssh, "the ssh command for --hosts, with options of its own")
      ->capture_default_str()
      ->check(kNotBlank)
      ->needs(hosts);
  launch
      ->add_option("--remote-program", options.remote_program,
                   "path of embers on these hosts (default: where it is on this one)")
      ->check(kNotEmpty);
  add_scheduler(*launch, options.scheduler);
  launch->footer(
      "embers launch JOB [OPTIONS] -- COMMAND ...  starts this command as each worker, with EMBERS_MASTER, "
      "EMBERS_JOB_DIR, EMBERS_SECRET_FILE and EMBERS_LABEL in its environment, with --owner EMBERS_OWNER, "
      "too.");
}

// What a launcher starts; not for users.
void add_launched(CLI::App& app, Chosen& chosen) {
  const auto [guard, guard_options] =
      add_command<GuardOptions>(app, chosen, "guard", "end what a launcher leaves behind");
  guard->group("")->add_option("MARK", guard_options.mark)->required();
  guard->add_option("--slurm-job", guard_options.slurm_job, "whose steps are to be ended, too");
  const auto [member, options] =
      add_command<MemberOptions>(app, chosen, "member", "run a command for a launcher on another host");
  member->group("");
  member->add_option("--dir", options.directory, "directory to start in");
  member->add_flag("--secret", options.secret, "read the job's secret from standard input");
  member->add_option("ENVIRONMENT", options.environment, "NAME=VALUE ...");
}

}  // namespace embers
