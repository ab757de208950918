// embers bench, and the cases of embers op.
#include <cstdint>

#include "apps/command_line/commands.h"
#include "apps/command_line/op_help.h"

namespace embers {

void add_bench(CLI::App& app, Chosen& chosen) {
  CLI::App* const bench = app.add_subcommand("bench", "compare the speed of embers with that of others");
  bench->require_subcommand(1);
  const auto add = [&](Bench which, const char* name, const char* text) {
    const auto [sub, options] = add_command<BenchOptions>(*bench, chosen, name, text);
    options.bench = which;
    sub->add_option("--report", options.report, "write the result as JSON to this file");
    sub->add_flag("--quick", options.quick, "measure a smaller grid, for a quick look");
    if (which == Bench::kTrain)
      sub->add_flag("--large", options.large, "also the layers of DeepRec's modelzoo, as long again");
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
  add(Bench::kStorage, "storage", "pull and push beside Redis, memcached and torch; 20 minutes, and 20 GB");
  add(Bench::kControl, "control",
      "a master with up to 4000 simulated workers and 100 owners: leases, heartbeats, memory; 3 minutes");
  add(Bench::kHosts, "hosts",
      "deepfm across a link of 1 Gbit/s and 0.5 ms beside the same job on one host, 15 minutes (--quick: 2)");
  add(Bench::kPython, "python",
      "PyTorch scripts with embers beside the same with torch's own tables, 10 minutes (--quick: 2)");
  add(Bench::kPartition, "partition",
      "wide and narrow tables on two shards, split by rows and by columns; 2 minutes (--quick: seconds)");
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

}  // namespace embers
