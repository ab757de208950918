// Parses the command line.
#include "apps/command_line/run_program.h"

#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>

#include "apps/command_line/commands.h"
#include "apps/command_line/describe.h"
#include "base/errors.h"
#include "base/log/standard_error.h"
#include "base/standard_streams.h"
#include "base/tune_malloc.h"

namespace embers {
namespace {

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
                         add_top, add_doctor, add_using, add_plan, add_synth, add_bench, add_op, add_help})
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
