// The `embers` command: parses the command line and runs one sub-command.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdint>
#include <functional>

#include "apps/commands.h"
#include "apps/describe.h"
#include "apps/op/op.h"
#include "apps/runtime.h"
#include "base/errors.h"
#include "base/tune_malloc.h"
#include "model/step.h"

namespace {

using namespace embers;

// Which sub-command was chosen, to be run once everything is parsed.
using Chosen = std::function<int()>;

constexpr int kMostOwners = 4096;  // of a process

// An empty word is what an unset variable of a shell leaves behind, not a wish.
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
  app.add_option("--resume", o.resume, "go on from this saved directory")->check(kNotEmpty);
  app.add_option("--dump-rows", o.dump_rows, "write every row as text: table, key, values, divided by tabs")
      ->check(kNotEmpty);
}

void add_join_options(CLI::App& app, JoinOptions& o) {
  app.add_option("--master", o.master, "address of the master: HOST:PORT or unix:/path")->required();
  app.add_option("--connect-timeout", o.connect_timeout, "seconds to keep trying to reach it")
      ->check(kSeconds)
      ->capture_default_str();
}

void add_pin(CLI::App& app, std::string& pin) {
  app.add_option(
         "--pin", pin,
         "CPUs, e.g. 0,2-3: each owner's shard gets a thread of its own, bound to one of them, in turn")
      ->check(kNotEmpty);
}

void add_shard(CLI::App& app, Chosen& chosen, ShardOptions& options) {
  CLI::App* shard = app.add_subcommand("shard", "hold a share of the rows of a job");
  add_join_options(*shard, options.join);
  shard
      ->add_option("--owners", options.owners,
                   "shards of the job that this process is: one uses one core, and they share nothing")
      ->check(CLI::Range(1, kMostOwners))
      ->capture_default_str();
  add_pin(*shard, options.pin);
  shard
      ->add_option("--listen", options.listen,
                   "HOST:PORT or unix:/path for workers (may be repeated; default: a free port and a Unix "
                   "socket); of several owners, HOST:0")
      ->allow_extra_args(false);
  shard->callback([&] { chosen = [&] { return run_as_batch(), serve_shard(options); }; });
}

void add_training(CLI::App& app, Chosen& chosen, TrainOptions& train_options, MasterOptions& master_options,
                  ShardOptions& shard_options, JoinOptions& worker_options) {
  CLI::App* train_app = app.add_subcommand("train", "train a job in this one process");
  add_job_options(*train_app, train_options.job, true);
  add_pin(*train_app, train_options.pin);
  train_app->callback([&] { chosen = [&] { return run_as_batch(), train(train_options); }; });

  CLI::App* master =
      app.add_subcommand("master", "run the master of a job that shard and worker processes join");
  add_job_options(*master, master_options.job, true);
  master->add_option("--listen", master_options.listen, "HOST:PORT or unix:/path (may be repeated)")
      ->capture_default_str()
      ->allow_extra_args(false);
  master->add_option("--shards", master_options.shards,
                     "shards to wait for: processes, or their --owners together (default: storage.shards)");
  master->add_option("--workers", master_options.workers, "workers to wait for (default: training.workers)");
  master
      ->add_option("--connect-timeout", master_options.connect_timeout,
                   "seconds to keep trying to reach an owner")
      ->check(kSeconds)
      ->capture_default_str();
  master->callback([&] { chosen = [&] { return run_as_batch(), serve_master(master_options); }; });

  add_shard(app, chosen, shard_options);
  CLI::App* worker = app.add_subcommand("worker", "compute minibatches of a job");
  add_join_options(*worker, worker_options);
  worker
      ->add_option("--set", worker_options.set,
                   "override a value of the job for this host, e.g. data.dir=/mnt/data")
      ->allow_extra_args(false);
  worker->callback([&] { chosen = [&] { return run_as_batch(), serve_worker(worker_options); }; });
}

void add_using(CLI::App& app, Chosen& chosen, EvaluateOptions& evaluate_options,
               EvaluateOptions& predict_options, JobOptions& check_options, SynthOptions& synth_options) {
  const auto add = [&](const char* name, const char* what, EvaluateOptions& o) {
    CLI::App* sub = app.add_subcommand(name, what);
    add_job_options(*sub, o.job, false);
    sub->add_option("--model", o.job.resume, "directory that training saved with --output")
        ->required()
        ->check(kNotEmpty);
    sub->add_option("--data", o.data, "files instead of the job's test files");
    return sub;
  };
  add("evaluate", "loss, AUC and accuracy of a saved model on the test files", evaluate_options)
      ->callback([&] { chosen = [&] { return evaluate(evaluate_options); }; });
  CLI::App* predict_app =
      add("predict", "scores of a saved model for every record of the test files", predict_options);
  predict_app->add_option("--out", predict_options.out, "CSV file: record,score,label")
      ->required()
      ->check(kNotEmpty);
  predict_app->callback([&] { chosen = [&] { return predict(predict_options); }; });

  CLI::App* check_app =
      app.add_subcommand("check", "validate a job file, its model and its data files without training");
  add_job(*check_app, check_options);
  check_app->callback([&] { chosen = [&] { return check(check_options); }; });

  CLI::App* synth = app.add_subcommand("synth", "generate data");
  synth->require_subcommand(1);
  CLI::App* criteo = synth->add_subcommand("criteo", "a click log in Criteo's format with a planted teacher");
  criteo->add_option("--rows", synth_options.rows, "records in all; the last tenth goes to test.txt")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{10}, INT64_MAX));
  criteo->add_option("--seed", synth_options.seed, "the same seed gives the same bytes")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, INT64_MAX));
  criteo->add_option("--out", synth_options.out, "directory for train.txt and test.txt")
      ->capture_default_str();
  criteo->callback([&] { chosen = [&] { return synth_criteo(synth_options); }; });
}

void add_checking(CLI::App& app, Chosen& chosen, BenchOptions& bench_options,
                  std::vector<std::string>& part) {
  CLI::App* bench = app.add_subcommand("bench", "measure embers beside others");
  bench->require_subcommand(1);
  const auto add = [&](const char* name, const char* text, int (*run)(const BenchOptions&)) {
    CLI::App* sub = bench->add_subcommand(name, text);
    sub->add_option("--report", bench_options.report, "write the result as JSON to this file");
    sub->add_flag("--quick", bench_options.quick, "a smaller grid");
    sub->callback([&chosen, &bench_options, run] { chosen = [&, run] { return run(bench_options); }; });
    return sub;
  };
  add("engine", "the in-memory store beside the machine's limits, up to 16 GB of memory", bench_engine);
  add("lookup", "the lookup operators beside libtorch's, about 2 minutes and 6 GB", bench_lookup);
  add("model", "training steps of DLRM, DeepFM and WDL with embeddings unfused and fused, a few minutes",
      bench_model);
  add("train",
      "jobs of wide_deep, deepfm and dlrm in processes of their own beside the same models in plain "
      "libtorch, "
      "about 15 minutes",
      bench_train);

  add("wire", "pulls between two processes beside a bare Asio program, a minute (--quick: seconds)",
      bench_wire);

  const auto with_rows = [&](CLI::App* sub) {
    sub->add_option("--rows", bench_options.rows, "rows of a table")
        ->check(CLI::Range(int64_t{10'000}, int64_t{1'000'000'000}))
        ->capture_default_str();
  };
  with_rows(add("backends",
                "tables in memory, memcached and Redis beside their raw clients; minutes, and 12 GB",
                bench_backends));
  with_rows(
      add("storage", "pull and push beside Redis, memcached and torch; 6 minutes, and 12 GB", bench_storage));

  CLI::App* part_app = bench->add_subcommand("part", "a process of a benchmark")->group("");
  part_app->add_option("WORDS", part);
  part_app->callback([&] { chosen = [&] { return bench_part(part); }; });

  CLI::App* op_app = app.add_subcommand("op", "run one operator on a case given as JSON");
  op_app->footer(op::kHelp);
  op_app->callback([&] { chosen = run_op; });
}

CLI::App* find_command(CLI::App& app, const std::string& name) {
  const auto known = app.get_subcommands([&](CLI::App* sub) { return sub->check_name(name); });
  if (known.empty()) fail(ErrorCode::kInvalid, "there is no command '{}'; see embers help", name);
  return known.front();
}

void add_help(CLI::App& app, Chosen& chosen, HelpOptions& options) {
  CLI::App* help = app.add_subcommand("help", "what embers can do, or the options of one command");
  auto* const command = help->add_option("COMMAND", options.command, "e.g. train");
  help->add_flag("--json", options.json,
                 "all commands, their options, and all keys of job files, for programs")
      ->excludes(command);
  help->callback([&] {
    chosen = [&] {
      if (options.json) {
        fmt::print("{}\n", describe(app).dump(2));
        return 0;
      }
      CLI::App* what = &app;
      std::string before;  // the names of the commands above it
      for (const std::string& name : options.command) {
        before += (before.empty() ? "" : " ") + what->get_name();
        what = find_command(*what, name);
      }
      fmt::print("{}", what->help(before));
      return 0;
    };
  });
}

int run(int argc, char** argv) {
  CLI::App app{"embers: embedding row server. Trains models whose embedding tables outgrow one machine.",
               "embers"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "embers " EMBERS_VERSION);
  Chosen chosen;
  TrainOptions train_options;
  JobOptions check_options;
  MasterOptions master_options;
  ShardOptions shard_options;
  JoinOptions worker_options;
  EvaluateOptions evaluate_options, predict_options;
  SynthOptions synth_options;
  BenchOptions bench_options;
  HelpOptions help_options;
  std::vector<std::string> part;
  add_training(app, chosen, train_options, master_options, shard_options, worker_options);
  add_using(app, chosen, evaluate_options, predict_options, check_options, synth_options);
  add_checking(app, chosen, bench_options, part);
  add_help(app, chosen, help_options);
  if (argc > 1 && argv[1][0] != '-') find_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  tune_malloc();
  embers::choose_blas_core();
  std::signal(SIGPIPE, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_color_mt("embers"));
  spdlog::set_pattern("%H:%M:%S %v");
  try {
    return run(argc, argv);
  } catch (const embers::Error& e) {
    fmt::print(stderr, "embers: error: {}\n", e.what());
    return embers::exit_status(e.code());
  } catch (const std::exception& e) {
    fmt::print(stderr, "embers: error: {}\n", e.what());
    return 1;
  }
}
