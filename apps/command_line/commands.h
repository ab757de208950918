#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "apps/command_line/command.h"

// What the files of this folder share: each defines the options of some commands.
namespace embers {

// The command that was chosen, once everything is parsed.
using Chosen = std::optional<Command>;

inline constexpr int kMostOwners = 4096;  // of a process

extern const CLI::Validator kNotEmpty;

// A new command whose options go to `Options`, which live as long as the command.
template <class Options>
std::pair<CLI::App*, Options&> add_command(CLI::App& app, Chosen& chosen, const char* name,
                                           const char* description) {
  CLI::App* const command = app.add_subcommand(name, description);
  const auto options = std::make_shared<Options>();
  command->callback([&chosen, options] { chosen = *options; });
  return {command, *options};
}

// --- options that several commands have ----------------------------------------------------------

// `job_dir`: what the directory is for here.
CLI::Option* add_access(CLI::App& app, AccessOptions& o, const char* job_dir);
void add_join_options(CLI::App& app, JoinOptions& o);
// `who` finds the process there.
std::vector<CLI::Option*> add_reached(CLI::App& app, ReachedOptions& o, const std::string& who);
// Of a job in several processes. Returns --shards and --workers, for more to be said about them.
std::pair<CLI::Option*, CLI::Option*> add_master_options(CLI::App& app, MasterOptions& o);

// --- commands, by file ---------------------------------------------------------------------------

void add_train(CLI::App& app, Chosen& chosen);
void add_master(CLI::App& app, Chosen& chosen);
void add_shard(CLI::App& app, Chosen& chosen);
void add_worker(CLI::App& app, Chosen& chosen);
void add_doctor(CLI::App& app, Chosen& chosen);
void add_using(CLI::App& app, Chosen& chosen);  // evaluate, predict, check
void add_synth(CLI::App& app, Chosen& chosen);

// launch_options.cc
void add_launch(CLI::App& app, Chosen& chosen);
void add_launched(CLI::App& app, Chosen& chosen);

// control_options.cc
void add_control(CLI::App& app, Chosen& chosen);
void add_top(CLI::App& app, Chosen& chosen);

// bench_options.cc
void add_bench(CLI::App& app, Chosen& chosen);
void add_op(CLI::App& app, Chosen& chosen);

}  // namespace embers
