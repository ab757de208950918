// embers bench partition: the same minibatches on tables that are split over two shards by rows (token) and
// by columns (encoding).
//
//   hot     512 rows x 4096 columns, as of a game's actions; few of them are used, again and again
//   wide    the same table; a minibatch has 64 of its rows, any
//   narrow  1 M rows x 16 columns; a minibatch has 4096 keys, any
//
// A worker pulls a minibatch's rows and pushes gradients for them, then those of the next one; it computes
// nothing. Master and shards are processes of their own (apps/plan/). Each run is a job of its own, in which
// blocks of the sides take turns, there and back; both tables begin with zeros, get the same gradients, and
// must have the same rows at the end, bit by bit. A run's ratio is the median of those of its pairs of
// blocks.
//
//   partition.plan_is_right   1 if for the wide table with hot keys and for the narrow one the faster
//   strategy is
//                             the one that embers plan recommends, from measurements of its own, and that
//                             partition = "auto" chooses
//   partition.wide            seconds of a step of token over those of encoding, hot; median of five runs
#include <algorithm>
#include <numeric>

#include "apps/plan/plan.h"
#include "apps/plan/profiled_job.h"
#include "base/errors.h"
#include "bench/harness/bench.h"

namespace embers {
namespace {

using Json = nlohmann::json;
using plan::median;
using plan::ProfiledJob;

constexpr uint32_t kShards = 2;
constexpr size_t kMinibatches = 8;

struct Case {
  std::string name;
  int64_t rows;
  uint32_t dim;
  size_t keys;  // of a minibatch
  size_t of;    // it draws from so many rows
};

plan::Workload workload_of(const Case& c) {
  plan::Workload workload;
  workload.job.training.mode = job::Mode::kSync;
  TableSpec& table = workload.tables.emplace_back();
  table.name = c.name;
  table.dim = c.dim;
  table.input_dim = c.rows;
  table.update_rule = {"adagrad", {{"learning_rate", 0.01}}};
  std::mt19937_64 random(7);
  std::vector<int64_t> ids(static_cast<size_t>(c.rows));
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), random);
  ids.resize(c.of);
  for (size_t m = 0; m < kMinibatches; ++m) {
    std::shuffle(ids.begin(), ids.end(), random);
    workload.keys.push_back(
        {Keys(std::vector<int64_t>(ids.begin(), ids.begin() + static_cast<long>(c.keys)))});
  }
  return workload;
}

struct Run {
  double token = 0, encoding = 0;  // seconds of a step
  double ratio = 0;                // token over encoding, the median of pairs of blocks
  double token_bytes = 0, encoding_bytes = 0;
};

Run run(const plan::Workload& workload, size_t rounds, double block_seconds) {
  std::vector<TableSpec> tables{workload.tables[0], workload.tables[0]};
  tables[1].partition = Partition::kEncoding;
  ProfiledJob job(workload.job, tables, kShards);
  std::vector<ProfiledJob::Minibatch> minibatches[2];
  for (size_t t = 0; t < 2; ++t)
    for (const auto& keys : workload.keys) minibatches[t].push_back({{t, keys[0]}});
  double slowest = 0;
  for (size_t t = 0; t < 2; ++t) {
    job.run(minibatches[t], kMinibatches);
    slowest = std::max(slowest, job.run(minibatches[t], kMinibatches).seconds);
  }
  const size_t steps =
      kMinibatches * std::max<size_t>(1, static_cast<size_t>(block_seconds / slowest) / kMinibatches);
  std::vector<double> seconds[2], last[2];
  double bytes[2];
  for (size_t round = 0; round < rounds; ++round) {
    for (const size_t t : {round % 2, 1 - round % 2}) {
      const ProfiledJob::Step step = job.run(minibatches[t], steps);
      seconds[t].push_back(step.seconds);
      bytes[t] = step.sent + step.received;
      last[t].assign(job.last_rows().begin(), job.last_rows().end());
    }
    if (last[0] != last[1])
      fail(ErrorCode::kInternal, "table '{}' has other rows with encoding than with token",
           workload.tables[0].name);
  }
  return {median(seconds[0]), median(seconds[1]), plan::paired_ratio(seconds[0], seconds[1]), bytes[0],
          bytes[1]};
}

struct Verdict {
  Json report;
  Estimate ratio;  // seconds of token over those of encoding
  bool is_right;
};

Verdict measure(const Case& c, bool quick) {
  const plan::Workload workload = workload_of(c);
  std::vector<double> ratios, token, encoding;
  Run last;
  for (int i = 0; i < (quick ? 1 : 5); ++i) {
    last = run(workload, quick ? 3 : 8, quick ? 0.02 : 0.25);
    token.push_back(last.token);
    encoding.push_back(last.encoding);
    ratios.push_back(last.ratio);
  }
  const Estimate ratio = median_estimate(ratios);
  const plan::Plan plan =
      plan::make_plan(workload, {kShards}, {.seconds = quick ? 1.0 : 10.0}, [](const std::string&) {});
  const plan::TablePlan& planned = plan.shards[0].tables[0];
  const Partition faster = ratio.value > 1 ? Partition::kEncoding : Partition::kToken;
  fmt::print(
      "{:<8} {:>7} x {:<5} {:>5} keys  token {:>8.3f} ms  encoding {:>8.3f} ms  ratio {:.3f}  plan {}, auto "
      "{}\n",
      c.name, c.rows, c.dim, c.keys, 1e3 * median(token), 1e3 * median(encoding), ratio.value,
      name(planned.recommended), name(planned.automatic));
  std::fflush(stdout);
  return {{{"case", c.name},
           {"rows", c.rows},
           {"dim", c.dim},
           {"keys", c.keys},
           {"keys_drawn_from", c.of},
           {"token_seconds", token},
           {"encoding_seconds", encoding},
           {"token_bytes", last.token_bytes},
           {"encoding_bytes", last.encoding_bytes},
           {"ratios", ratios},
           {"ratio", ratio.value},
           {"faster", name(faster)},
           {"plan", name(planned.recommended)},
           {"auto", name(planned.automatic)},
           {"auto_because", planned.automatic_why}},
          ratio,
          planned.recommended == faster && planned.automatic == faster};
}

}  // namespace

int bench_partition(const BenchOptions& options) {
  Json report = begin_report("partition", options);
  report["shards"] = kShards;
  const Verdict hot = measure({"hot", 512, 4096, 8, 8}, options.quick);
  const Verdict wide = measure({"wide", 512, 4096, 64, 512}, options.quick);
  const Verdict narrow = measure({"narrow", 1'000'000, 16, 4096, 1'000'000}, options.quick);
  report["cases"] = {hot.report, wide.report, narrow.report};
  report["targets"] = {target("partition.plan_is_right", hot.is_right && narrow.is_right ? 1 : 0, 1),
                       target("partition.wide", hot.ratio, 1.2)};
  return end_report(report, options);
}

}  // namespace embers
