// Parses the command line. Every option of every command is defined here, and only here.
#include "apps/command_line/command_line.h"

#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "apps/command_line/describe.h"
#include "apps/command_line/op_help.h"
#include "base/errors.h"
#include "base/log/standard_error.h"
#include "base/standard_streams.h"
#include "base/tune_malloc.h"
#include "job/sections/training_section.h"

namespace embers {
namespace {

// The command that was chosen, once everything is parsed.
using Chosen = std::optional<Command>;

constexpr int kMostOwners = 4096;   // of a process
constexpr int kMostCores = 65'536;  // of a worker

// An unset shell variable leaves an empty word behind, which nobody intends.
const CLI::Validator kNotEmpty(
    [](const std::string& text) { return std::string(text.empty() ? "is empty" : ""); }, "", "not empty");

// An unset shell variable may also leave a space behind.
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

const CLI::Validator kSeconds(
    [](const std::string& text) {
      double seconds = 0;
      const bool good = CLI::detail::lexical_cast(text, seconds) && seconds >= 0 && seconds <= 31'536'000;
      return std::string(good ? "" : "must be a number of seconds from 0 to 31536000");
    },
    "SECONDS");

const CLI::Validator kInterval(
    [](const std::string& text) {
      double seconds = 0;
      const bool good = CLI::detail::lexical_cast(text, seconds) && seconds >= 0.1 && seconds <= 3600;
      return std::string(good ? "" : "must be a number of seconds from 0.1 to 3600");
    },
    "SECONDS");

void add_job(CLI::App& app, JobOptions& o) {
  app.add_option("JOB", o.job, "job file (TOML)")->required();
  app.add_option("--set", o.set, "override a value of the job file: section.key=value (may be repeated)")
      ->allow_extra_args(false);
}

void add_job_options(CLI::App& app, JobOptions& o, bool trains) {
  add_job(app, o);
  app.add_option("--report", o.report, "write the result as JSON to this file")->check(kNotEmpty);
  if (!trains) return;
  app.add_option("--output", o.output, "save rows, slots, dense parameters and a manifest to this directory")
      ->check(kNotEmpty);
  app.add_option("--save-every", o.save_every, "also save every N epochs; needs --output")
      ->check(CLI::Range(1, INT32_MAX))
      ->needs("--output");
  app.add_option("--resume", o.resume, "continue from this saved directory")->check(kNotEmpty);
  app.add_flag("-v,--verbose", o.verbose,
               "say more about the result: how stale the gradients were, by share");
  app.add_option("--dump-rows", o.dump_rows, "write every row as text: table, key, values, separated by tabs")
      ->check(kNotEmpty);
}

// `job_dir`: what the directory is for here.
CLI::Option* add_access(CLI::App& app, AccessOptions& o, const char* job_dir) {
  CLI::Option* const option = app.add_option("--job-dir", o.job_dir, job_dir)->check(kNotEmpty);
  app.add_option("--secret-file", o.secret_file,
                 "file with the job's secret, instead of the one in the job directory")
      ->envname("EMBERS_SECRET_FILE");
  app.add_flag("--insecure", o.insecure,
               "use no secret, even between hosts: for networks that are closed to strangers");
  return option;
}

void add_join_options(CLI::App& app, JoinOptions& o) {
  CLI::Option* const master =
      app.add_option("--master", o.master,
                     "address of the master: HOST:PORT or unix:/path (or EMBERS_MASTER in the environment)")
          ->check(kNotEmpty);
  add_access(app, o.access,
             "directory of the job, where the master's address and the secret are (or EMBERS_JOB_DIR in the "
             "environment)")
      ->excludes(master);
  app.add_option("--connect-timeout", o.connect_timeout, "seconds to keep trying to reach it")
      ->check(kSeconds)
      ->capture_default_str();
}

// `who` finds the process there.
void add_reached(CLI::App& app, ReachedOptions& o, const std::string& who) {
  app.add_option(
         "--advertise", o.advertise,
         "HOST or HOST:PORT by which " + who +
             " reach this process (default: what it listens on; for 0.0.0.0 and [::] the addresses of this "
             "host)")
      ->check(kNotEmpty);
  app.add_option("--port-range", o.port_range,
                 "A-B: ports to listen on where --listen has port 0 or none is given (default: any free one)")
      ->check(kNotEmpty);
}

void add_pin(CLI::App& app, std::string& pin) {
  app.add_option(
         "--pin", pin,
         "CPUs, e.g. 0,2-3: each owner's shard gets a thread of its own, bound to one of them, in turn")
      ->check(kNotEmpty);
}

// A new command whose options go to `Options`, which live as long as the command.
template <class Options>
std::pair<CLI::App*, Options&> add_command(CLI::App& app, Chosen& chosen, const char* name,
                                           const char* description) {
  CLI::App* const command = app.add_subcommand(name, description);
  const auto options = std::make_shared<Options>();
  command->callback([&chosen, options] { chosen = *options; });
  return {command, *options};
}

void add_train(CLI::App& app, Chosen& chosen) {
  const auto [train, options] =
      add_command<TrainOptions>(app, chosen, "train", "train a job in this one process");
  add_job_options(*train, options.job, true);
  add_pin(*train, options.pin);
}

// What the master's job is: options of one task mean nothing to another.
void add_task(CLI::App& master, MasterOptions& o) {
  static const std::map<std::string, Task> tasks{
      {"train", Task::kTrain}, {"evaluate", Task::kEvaluate}, {"predict", Task::kPredict}};
  const auto words = std::make_shared<std::pair<std::string, std::string>>("train", "");
  auto& [task, model] = *words;
  master
      .add_option(
          "--task", task,
          "train; or use the model of --model: evaluate it on the test files, or predict their scores")
      ->check(CLI::IsMember({"train", "evaluate", "predict"}))
      ->capture_default_str();
  master.add_option("--model", model, "evaluate, predict: directory that training saved with --output")
      ->check(kNotEmpty);
  master.add_option("--data", o.data, "evaluate, predict: files to use instead of the job's test files");
  master.add_option("--out", o.out, "predict: CSV file: record,score,label")->check(kNotEmpty);
  // Runs before the command's own callback, which keeps the options alive and must stay.
  master.parse_complete_callback([&, words] {
    const std::string task = words->first;
    o.task = tasks.at(task);
    o.job.resume = o.task == Task::kTrain ? o.job.resume : words->second;
    const auto needs = [&](const char* option) {
      if (master.count(option) == 0)
        fail(ErrorCode::kInvalid, "--task {} needs {}; see embers help {}", task, option, master.get_name());
    };
    const auto refuses = [&](std::initializer_list<const char*> options) {
      for (const char* option : options)
        if (master.count(option) > 0)
          fail(ErrorCode::kInvalid, "{} means nothing with --task {}; see embers help {}", option, task,
               master.get_name());
    };
    if (o.task == Task::kTrain) return refuses({"--model", "--data", "--out"});
    refuses({"--output", "--save-every", "--resume", "--dump-rows"});
    needs("--model");
    o.task == Task::kPredict ? needs("--out") : refuses({"--out"});
  });
}

// Of a job in several processes. --shards and --workers, for more to be said about them.
std::pair<CLI::Option*, CLI::Option*> add_master_options(CLI::App& app, MasterOptions& o) {
  add_job_options(app, o.job, true);
  add_task(app, o);
  CLI::Option* const shards = app.add_option(
      "--shards,--owners", o.shards,
      "shards to wait for: the sum of --owners over all shard processes (default: storage.shards)");
  CLI::Option* const workers =
      app.add_option("--workers", o.workers, "workers to wait for (default: training.workers)");
  app.add_option("--connect-timeout", o.connect_timeout, "seconds to keep trying to reach an owner")
      ->check(kSeconds)
      ->capture_default_str();
  return {shards, workers};
}

void add_master(CLI::App& app, Chosen& chosen) {
  const auto [master, options] = add_command<MasterOptions>(
      app, chosen, "master", "run the master of a job that shard and worker processes join");
  add_master_options(*master, options);
  master->add_option("--listen", options.listen, "HOST:PORT or unix:/path (may be repeated)")
      ->capture_default_str()
      ->allow_extra_args(false);
  options.listen.clear();  // shown, but not given
  add_reached(*master, options.reached, "shards and workers");
  add_access(*master, options.access,
             "directory for the master's address and the job's secret, which is made at first use");
}

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
      "EMBERS_JOB_DIR, EMBERS_SECRET_FILE and EMBERS_LABEL in its environment.");
}

// What a launcher starts; not for users.
void add_launched(CLI::App& app, Chosen& chosen) {
  const auto [guard, guard_options] =
      add_command<GuardOptions>(app, chosen, "guard", "end what a launcher leaves behind");
  guard->group("")->add_option("MARK", guard_options.mark)->required();
  const auto [member, options] =
      add_command<MemberOptions>(app, chosen, "member", "run a command for a launcher on another host");
  member->group("");
  member->add_option("--dir", options.directory, "directory to start in");
  member->add_flag("--secret", options.secret, "read the job's secret from standard input");
  member->add_option("ENVIRONMENT", options.environment, "NAME=VALUE ...");
}

void add_shard(CLI::App& app, Chosen& chosen) {
  const auto [shard, options] = add_command<ShardOptions>(
      app, chosen, "shard", "join a job as one or more shards: keep a share of its rows");
  shard->alias("owner");
  add_join_options(*shard, options.join);
  shard
      ->add_option("--owners", options.owners,
                   "owners of the job that this process holds: each uses one core, and they share nothing")
      ->check(CLI::Range(1, kMostOwners))
      ->capture_default_str();
  add_pin(*shard, options.pin);
  shard
      ->add_option("--listen", options.listen,
                   "HOST:PORT or unix:/path for workers (may be repeated; default: a free port and a Unix "
                   "socket); with several owners, HOST:0")
      ->allow_extra_args(false);
  add_reached(*shard, options.reached, "master and workers");
}

void add_set_here(CLI::App& app, JoinOptions& o) {
  app.add_option("--set", o.set, "override a value of the job for this host, e.g. data.dir=/mnt/data")
      ->allow_extra_args(false);
}

void add_worker(CLI::App& app, Chosen& chosen) {
  const auto [worker, options] =
      add_command<WorkerOptions>(app, chosen, "worker", "compute minibatches of a job");
  add_join_options(*worker, options.join);
  add_set_here(*worker, options.join);
}

void add_doctor(CLI::App& app, Chosen& chosen) {
  const auto [doctor, options] = add_command<DoctorOptions>(
      app, chosen, "doctor", "check whether this host can take part in a running job, and say what to do");
  add_join_options(*doctor, options.join);
  add_set_here(*doctor, options.join);
  doctor
      ->add_option(
          "--listen", options.listen,
          "HOST:PORT that a shard on this host would listen on (may be repeated; default: a free port)")
      ->allow_extra_args(false);
  add_reached(*doctor, options.reached, "master and workers");
  doctor->add_flag("--skip-data", options.skip_data, "do not read the data files and load the model");
  doctor->add_flag("--json", options.json, "print what was found as JSON");
  const auto [examine, what] = add_command<ExamineOptions>(app, chosen, "examine", "for embers doctor");
  examine->group("");
  add_join_options(*examine, what.join);
  add_set_here(*examine, what.join);
}

template <class Options>
std::pair<CLI::App*, Options&> add_steering(CLI::App& app, Chosen& chosen, const char* name,
                                            const char* description) {
  const auto [command, options] = add_command<Options>(app, chosen, name, description);
  add_join_options(*command, options.steer.join);
  command->add_flag("--json", options.steer.json, "print the status of the job as JSON");
  return {command, options};
}

void add_control(CLI::App& app, Chosen& chosen) {
  add_steering<StatusOptions>(app, chosen, "status", "show how a running job stands, and its members");
  const auto [scale, scale_options] =
      add_steering<ScaleOptions>(app, chosen, "scale", "say how many workers a running job is to have");
  scale->add_option("--workers", scale_options.workers, "workers that are wanted from now on")
      ->required()
      ->check(CLI::Range(1, job::kMostWorkers));
  const auto [drain, drain_options] = add_steering<DrainOptions>(
      app, chosen, "drain", "have workers finish what they hold and leave; so many fewer are wanted then");
  drain
      ->add_option("NAME", drain_options.members,
                   "workers: as status names them (worker-3, or 3), or their labels")
      ->required()
      ->check(kNotEmpty);
  const auto [stop, stop_options] = add_steering<StopOptions>(
      app, chosen, "stop", "end a running job: it finishes what is under way, and saves");
  stop->add_flag("!--no-save", stop_options.save, "save nothing");
}

void add_top(CLI::App& app, Chosen& chosen) {
  const auto [top, options] = add_command<TopOptions>(
      app, chosen, "top", "watch a running job: its rates and its members, on a terminal or line by line");
  add_join_options(*top, options.join);
  top->add_option("--interval", options.interval, "seconds between looks at the job")
      ->check(kInterval)
      ->capture_default_str();
}

void add_evaluate_options(CLI::App& app, EvaluateOptions& o) {
  add_job_options(app, o.job, false);
  app.add_option("--model", o.job.resume, "directory that training saved with --output")
      ->required()
      ->check(kNotEmpty);
  app.add_option("--data", o.data, "files to use instead of the job's test files");
}

void add_using(CLI::App& app, Chosen& chosen) {
  const auto [evaluate, evaluate_options] = add_command<EvaluateOptions>(
      app, chosen, "evaluate", "print loss, AUC and accuracy of a saved model on the test files");
  add_evaluate_options(*evaluate, evaluate_options);
  const auto [predict, predict_options] = add_command<PredictOptions>(
      app, chosen, "predict", "write the scores of a saved model for every record of the test files");
  add_evaluate_options(*predict, predict_options.evaluate);
  predict->add_option("--out", predict_options.out, "CSV file: record,score,label")
      ->required()
      ->check(kNotEmpty);
  const auto [check, check_options] = add_command<CheckOptions>(
      app, chosen, "check", "validate a job file, its model and its data files without training");
  add_job(*check, check_options.job);
}

void add_synth(CLI::App& app, Chosen& chosen) {
  CLI::App* const synth = app.add_subcommand("synth", "generate data");
  synth->require_subcommand(1);
  const auto [criteo, options] = add_command<SynthOptions>(
      *synth, chosen, "criteo", "generate a click log in Criteo's format, with a planted teacher");
  criteo->add_option("--rows", options.rows, "records in total; the last tenth goes to test.txt")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{10}, INT64_MAX));
  criteo->add_option("--seed", options.seed, "the same seed gives the same bytes")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, INT64_MAX));
  criteo->add_option("--out", options.out, "directory for train.txt and test.txt")->capture_default_str();
}

void add_bench(CLI::App& app, Chosen& chosen) {
  CLI::App* const bench = app.add_subcommand("bench", "compare the speed of embers with that of others");
  bench->require_subcommand(1);
  const auto add = [&](Bench which, const char* name, const char* text) {
    const auto [sub, options] = add_command<BenchOptions>(*bench, chosen, name, text);
    options.bench = which;
    sub->add_option("--report", options.report, "write the result as JSON to this file");
    sub->add_flag("--quick", options.quick, "measure a smaller grid, for a quick look");
    if (which != Bench::kBackends && which != Bench::kStorage) return;
    sub->add_option("--rows", options.rows, "rows of a table")
        ->check(CLI::Range(int64_t{10'000}, int64_t{1'000'000'000}))
        ->capture_default_str();
  };
  add(Bench::kEngine, "engine", "the in-memory store beside the machine's limits, up to 16 GB of memory");
  add(Bench::kLookup, "lookup", "the lookup operators beside libtorch's, about 2 minutes and 6 GB");
  add(Bench::kModel, "model",
      "training steps of DLRM, DeepFM and WDL with embeddings unfused and fused, a few minutes");
  add(Bench::kTrain, "train",
      "jobs of wide_deep, deepfm and dlrm in processes of their own beside the same models in plain "
      "libtorch, "
      "about 15 minutes");
  add(Bench::kWire, "wire",
      "pulls between two processes beside a bare Asio program, a minute (--quick: seconds)");
  add(Bench::kBackends, "backends",
      "tables in memory, memcached and Redis beside their raw clients; minutes, and 12 GB");
  add(Bench::kStorage, "storage", "pull and push beside Redis, memcached and torch; 6 minutes, and 12 GB");
  add(Bench::kControl, "control",
      "a master with up to 4000 simulated workers and 100 owners: leases, heartbeats, memory; 3 minutes");
  add(Bench::kHosts, "hosts",
      "deepfm across a link of 1 Gbit/s and 0.5 ms beside the same job on one host, 15 minutes (--quick: 2)");
  const auto [part, options] =
      add_command<BenchPartOptions>(*bench, chosen, "part", "a process of a benchmark");
  part->group("")->add_option("WORDS", options.words);
}

void add_op(CLI::App& app, Chosen& chosen) {
  const auto [op, options] =
      add_command<OpOptions>(app, chosen, "op", "run one operator on a case given as JSON");
  op->add_flag(
      "--lines", options.lines,
      "read one case per line, and answer each with a line, in order, as soon as its result is known");
  op->footer(kOpHelp);
}

CLI::App* find_command(CLI::App& app, const std::string& name) {
  const auto known = app.get_subcommands([&](CLI::App* sub) { return sub->check_name(name); });
  if (known.empty()) fail(ErrorCode::kInvalid, "there is no command '{}'; see embers help", name);
  return known.front();
}

std::string help_text(CLI::App& app, const std::vector<std::string>& command) {
  CLI::App* what = &app;
  std::string path = app.get_name();
  for (const std::string& name : command) {
    what = find_command(*what, name);
    path += ' ' + name;
  }
  // App::help() would describe the command that was parsed, which is help.
  return what->get_formatter()->make_help(what, path, CLI::AppFormatMode::Normal);
}

void add_help(CLI::App& app, Chosen& chosen) {
  CLI::App* const help = app.add_subcommand("help", "list the commands, or the options of one command");
  struct Options {
    std::vector<std::string> command;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  auto* const command = help->add_option("COMMAND", options->command, "e.g. train");
  help->add_flag("--json", options->json,
                 "print all commands, their options, and all keys of job files as JSON")
      ->excludes(command);
  help->callback([&app, &chosen, options] {
    chosen = HelpOptions{options->json ? describe(app).dump(2) + '\n' : help_text(app, options->command)};
  });
}

// Commands that take another command after "--". What belongs to that is not for the parser.
bool takes_command(std::string_view name) { return name == "launch" || name == "member"; }

// How many words at the end are "--" and such a command.
int cut_off_command(int argc, const char* const* argv) {
  if (argc < 2 || !takes_command(argv[1])) return 0;
  const auto end = argv + argc;
  return static_cast<int>(end - std::find(argv, end, std::string_view("--")));
}

void add_cut_off(Command& command, std::vector<std::string> words) {
  if (words.empty()) return;
  if (words.size() == 1) fail(ErrorCode::kInvalid, "there is no command after --");
  words.erase(words.begin());
  if (auto* const launch = std::get_if<LaunchOptions>(&command)) launch->command = std::move(words);
  if (auto* const member = std::get_if<MemberOptions>(&command)) member->command = std::move(words);
}

int parse_and_run(int argc, const char* const* argv, const std::function<int(const Command&)>& run) {
  CLI::App app{"embers: embedding row server. Trains models whose embedding tables outgrow one machine.",
               "embers"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "embers " EMBERS_VERSION);
  Chosen chosen;
  for (const auto add : {add_train, add_launch, add_launched, add_master, add_shard, add_worker, add_control,
                         add_top, add_doctor, add_using, add_synth, add_bench, add_op, add_help})
    add(app, chosen);
  CLI::App* command = &app;
  for (int i = 1;
       i < argc && argv[i][0] != '-' && !command->get_subcommands([](CLI::App*) { return true; }).empty();
       ++i)
    command = find_command(*command, argv[i]);
  const int words = argc - cut_off_command(argc, argv);
  try {
    app.parse(words, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  add_cut_off(*chosen, {argv + words, argv + argc});
  return run(*chosen);
}

// spdlog's own sinks write in the thread that logs.
class StandardErrorSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    standard_error().line(at_present(std::string_view(message.payload.data(), message.payload.size())));
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}
};

int run_to_the_end(int argc, const char* const* argv, const std::function<int(const Command&)>& run) {
  try {
    const int status = parse_and_run(argc, argv, run);
    flush_results();
    return status;
  } catch (const Error& e) {
    say_error(e.what());
    return exit_status(e.code());
  } catch (const std::system_error& e) {
    if (std::ferror(stdout) != 0 && e.code() == std::errc::broken_pipe) return 0;  // whoever read it has gone
    say_error(e.what());
    return 1;
  } catch (const std::exception& e) {
    say_error(e.what());
    return 1;
  }
}

}  // namespace

int run_program(int argc, const char* const* argv, const std::function<int(const Command&)>& run) {
  open_standard_streams();
  tune_malloc();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);  // a parent may leave it ignored, which would hide how children end
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("embers", std::make_shared<StandardErrorSink>()));
  say_last_words_in_crashes();
  const int status = run_to_the_end(argc, argv, run);
  say_last_words();
  return status;
}

}  // namespace embers
