// The program embers. Commands that compute nothing run here, without libtorch, whose libraries take half a
// second to load; for the others it becomes another program (README.md).
#include <fmt/format.h>

#include <algorithm>

#include "apps/command_line/run_program.h"
#include "apps/control/control.h"
#include "apps/doctor/doctor.h"
#include "apps/launch/launch.h"
#include "apps/launch/processes/guard.h"
#include "apps/launch/processes/remote_member.h"
#include "apps/process/program.h"
#include "apps/process/runtime.h"
#include "apps/shard/shard.h"
#include "apps/synth.h"
#include "apps/top/top.h"

int main(int argc, char** argv) {
  using namespace embers;
  const std::vector<std::string> words(argv, argv + argc);
  return run_program(argc, argv, [&](const Command& command) {
    const auto bench = [&]() -> int {
      std::vector<std::string> rest(std::find(words.begin(), words.end(), "bench"), words.end());
      rest.front() = "embers-bench";
      become("embers-bench", rest);
    };
    return std::visit(
        Overloaded{
            [](const HelpOptions& o) { return fmt::print("{}", o.text), 0; },
            [](const SynthOptions& o) { return synth_criteo(o); },
            [](const StatusOptions& o) { return show_status(o); },
            [](const ScaleOptions& o) { return scale(o); }, [](const DrainOptions& o) { return drain(o); },
            [](const StopOptions& o) { return stop(o); },
            [](const CheckpointOptions& o) { return checkpoint(o); },
            [](const ShardOptions& o) { return run_as_batch(), serve_shard(o); },
            [](const TopOptions& o) { return serve_top(o); },
            [&](LaunchOptions o) {
              o.words.assign(std::find(words.begin(), words.end(), "launch") + 1, words.end());
              return launch::launch(o);
            },
            [](const GuardOptions& o) { return launch::run_guard(o.mark, o.slurm_job); },
            [](const DoctorOptions& o) { return run_doctor(o); },
            [](const MemberOptions& o) { return launch::run_remote_member(o); },
            [&](const BenchOptions&) { return bench(); }, [&](const BenchPartOptions&) { return bench(); },
            [&](const auto&) -> int { become("embers-compute", words); }},
        command);
  });
}
