// Commands that look at a running job or steer it.
#include <string>

#include "apps/command_line/commands.h"
#include "job/sections/training_section.h"

namespace embers {
namespace {

const CLI::Validator kInterval(
    [](const std::string& text) {
      double seconds = 0;
      const bool good = CLI::detail::lexical_cast(text, seconds) && seconds >= 0.1 && seconds <= 3600;
      return std::string(good ? "" : "must be a number of seconds from 0.1 to 3600");
    },
    "SECONDS");

template <class Options>
std::pair<CLI::App*, Options&> add_steering(CLI::App& app, Chosen& chosen, const char* name,
                                            const char* description) {
  const auto [command, options] = add_command<Options>(app, chosen, name, description);
  add_join_options(*command, options.steer.join);
  command->add_flag("--json", options.steer.json, "print the status of the job as JSON");
  return {command, options};
}

}  // namespace

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
  const auto [checkpoint, checkpoint_options] = add_steering<CheckpointOptions>(
      app, chosen, "checkpoint", "save a running job in the middle of its work; it goes on");
  checkpoint
      ->add_option("--out", checkpoint_options.out, "directory for the checkpoint, on the master's host")
      ->type_name("DIR")
      ->required()
      ->check(kNotEmpty);
}

void add_top(CLI::App& app, Chosen& chosen) {
  const auto [top, options] = add_command<TopOptions>(
      app, chosen, "top", "watch a running job: its rates and its members, on a terminal or line by line");
  add_join_options(*top, options.join);
  top->add_option("--interval", options.interval, "seconds between looks at the job")
      ->check(kInterval)
      ->capture_default_str();
  top->add_flag("--json", options.json, "print the status of the job as JSON, a line for each look");
}

}  // namespace embers
