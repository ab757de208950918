// Parses the command line. Every option of every command is defined here, and only here.
#include "apps/command_line/command_line.h"

#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>

#include "apps/command_line/describe.h"
#include "apps/command_line/op_help.h"
#include "base/errors.h"
#include "base/log/standard_error.h"
#include "base/tune_malloc.h"

namespace embers {
namespace {

// The command that was chosen, once everything is parsed.
using Chosen = std::optional<Command>;

constexpr int kMostOwners = 4096;  // of a process

// An unset shell variable leaves an empty word behind, which nobody intends.
const CLI::Validator kNotEmpty(
    [](const std::string& text) { return std::string(text.empty() ? "is empty" : ""); }, "", "not empty");

const CLI::Validator kSeconds(
    [](const std::string& text) {
      double seconds = 0;
      const bool good = CLI::detail::lexical_cast(text, seconds) && seconds >= 0 && seconds <= 31'536'000;
      return std::string(good ? "" : "must be a number of seconds from 0 to 31536000");
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
      app.add_option("--master", o.master, "address of the master: HOST:PORT or unix:/path")
          ->check(kNotEmpty);
  add_access(app, o.access, "directory of the job, where the master's address and the secret are")
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
        fail(ErrorCode::kInvalid, "--task {} needs {}; see embers help master", task, option);
    };
    const auto refuses = [&](std::initializer_list<const char*> options) {
      for (const char* option : options)
        if (master.count(option) > 0)
          fail(ErrorCode::kInvalid, "{} means nothing with --task {}; see embers help master", option, task);
    };
    if (o.task == Task::kTrain) return refuses({"--model", "--data", "--out"});
    refuses({"--output", "--save-every", "--resume", "--dump-rows"});
    needs("--model");
    o.task == Task::kPredict ? needs("--out") : refuses({"--out"});
  });
}

void add_master(CLI::App& app, Chosen& chosen) {
  const auto [master, options] = add_command<MasterOptions>(
      app, chosen, "master", "run the master of a job that shard and worker processes join");
  add_job_options(*master, options.job, true);
  add_task(*master, options);
  master->add_option("--listen", options.listen, "HOST:PORT or unix:/path (may be repeated)")
      ->capture_default_str()
      ->allow_extra_args(false);
  add_reached(*master, options.reached, "shards and workers");
  add_access(*master, options.access,
             "directory for the master's address and the job's secret, which is made at first use");
  master->add_option(
      "--shards,--owners", options.shards,
      "shards to wait for: the sum of --owners over all shard processes (default: storage.shards)");
  master->add_option("--workers", options.workers, "workers to wait for (default: training.workers)");
  master->add_option("--connect-timeout", options.connect_timeout, "seconds to keep trying to reach an owner")
      ->check(kSeconds)
      ->capture_default_str();
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

int parse_and_run(int argc, const char* const* argv, const std::function<int(const Command&)>& run) {
  CLI::App app{"embers: embedding row server. Trains models whose embedding tables outgrow one machine.",
               "embers"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "embers " EMBERS_VERSION);
  Chosen chosen;
  for (const auto add : {add_train, add_master, add_shard, add_worker, add_doctor, add_using, add_synth,
                         add_bench, add_op, add_help})
    add(app, chosen);
  CLI::App* command = &app;
  for (int i = 1;
       i < argc && argv[i][0] != '-' && !command->get_subcommands([](CLI::App*) { return true; }).empty();
       ++i)
    command = find_command(*command, argv[i]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
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
    return parse_and_run(argc, argv, run);
  } catch (const Error& e) {
    say_error(e.what());
    return exit_status(e.code());
  } catch (const std::exception& e) {
    say_error(e.what());
    return 1;
  }
}

}  // namespace

int run_program(int argc, const char* const* argv, const std::function<int(const Command&)>& run) {
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
