// The options that commands share, and those of the commands that have no file of their own here.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "apps/command_line/commands.h"
#include "base/errors.h"

namespace embers {

// An unset shell variable leaves an empty word behind, which nobody intends.
const CLI::Validator kNotEmpty(
    [](const std::string& text) { return std::string(text.empty() ? "is empty" : ""); }, "", "not empty");

namespace {

const CLI::Validator kSeconds(
    [](const std::string& text) {
      double seconds = 0;
      const bool good = CLI::detail::lexical_cast(text, seconds) && seconds >= 0 && seconds <= 31'536'000;
      return std::string(good ? "" : "must be a number of seconds from 0 to 31536000");
    },
    "SECONDS");

void add_job(CLI::App& app, JobOptions& o, bool required = true) {
  app.add_option("JOB", o.job,
                 required ? "job file (TOML)"
                          : "job file (TOML); without one, or without [model] and [data] in it, these come "
                            "with the first worker, a program of yours")
      ->required(required);
  app.add_option("--set", o.set, "override a value of the job file: section.key=value (may be repeated)")
      ->allow_extra_args(false);
}

void add_job_options(CLI::App& app, JobOptions& o, bool trains, bool required = true) {
  add_job(app, o, required);
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

}  // namespace

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

std::vector<CLI::Option*> add_reached(CLI::App& app, ReachedOptions& o, const std::string& who) {
  CLI::Option* const advertise = app.add_option("--advertise", o.advertise,
                                                "HOST or HOST:PORT by which " + who +
                                                    " reach this process (default: what it listens on; for "
                                                    "0.0.0.0 and [::] the addresses of this "
                                                    "host)")
                                     ->check(kNotEmpty);
  CLI::Option* const ports =
      app.add_option(
             "--port-range", o.port_range,
             "A-B: ports to listen on where --listen has port 0 or none is given (default: any free one)")
          ->check(kNotEmpty);
  return {advertise, ports};
}

namespace {

void add_pin(CLI::App& app, std::string& pin) {
  app.add_option(
         "--pin", pin,
         "CPUs, e.g. 0,2-3: each owner's shard gets a thread of its own, bound to one of them, in turn")
      ->check(kNotEmpty);
}

}  // namespace

void add_train(CLI::App& app, Chosen& chosen) {
  const auto [train, options] =
      add_command<TrainOptions>(app, chosen, "train", "train a job in this one process");
  add_job_options(*train, options.job, true);
  add_pin(*train, options.pin);
}

namespace {

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

}  // namespace

// Of a job in several processes. --shards and --workers, for more to be said about them.
std::pair<CLI::Option*, CLI::Option*> add_master_options(CLI::App& app, MasterOptions& o) {
  add_job_options(app, o.job, true, false);
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

namespace {

void add_set_here(CLI::App& app, JoinOptions& o) {
  app.add_option("--set", o.set, "override a value of the job for this host, e.g. data.dir=/mnt/data")
      ->allow_extra_args(false);
}

}  // namespace

void add_worker(CLI::App& app, Chosen& chosen) {
  const auto [worker, options] =
      add_command<WorkerOptions>(app, chosen, "worker", "compute minibatches of a job");
  add_join_options(*worker, options.join);
  add_set_here(*worker, options.join);
  CLI::Option* const owner = worker->add_flag(
      "--owner", options.owner,
      "also join as a shard: hold a share of the rows, which this worker reads without a socket");
  worker
      ->add_option(
          "--listen", options.listen,
          "with --owner: HOST:PORT or unix:/path for other workers (may be repeated; default: a free "
          "port and a Unix socket)")
      ->allow_extra_args(false)
      ->needs(owner);
  for (CLI::Option* const option : add_reached(*worker, options.reached, "master and other workers"))
    option->needs(owner);
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

namespace {

void add_evaluate_options(CLI::App& app, EvaluateOptions& o) {
  add_job_options(app, o.job, false);
  app.add_option("--model", o.job.resume, "directory that training saved with --output")
      ->required()
      ->check(kNotEmpty);
  app.add_option("--data", o.data, "files to use instead of the job's test files");
}

}  // namespace

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

}  // namespace embers
