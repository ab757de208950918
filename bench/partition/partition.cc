// embers bench partition: the same minibatches on tables that are split over two shards by rows (token) and
// by columns (encoding).
//
//   hot     512 rows x 4096 columns, as of a game's actions; 4 of them are used, again and again
//   hot_8   the same with 8
//   wide    the same table; a minibatch has 64 of its rows, any
//   narrow  1 M rows x 16 columns; a minibatch has 4096 keys, any
//
// Workers pull a minibatch's rows and push gradients for them, then those of the next one; they compute
// nothing. Each case is measured in two places:
//
//   hosts   master, 2 shards and 4 workers have a host each (bench/hosts/), with a network card of 1 Gbit/s,
//           around a switch, 0.05 ms from host to host; the workers train data-parallel, one minibatch each a
//           version. The hosts share this machine's cores; so that each has the time of a core for what its
//           card carries, the network is as many times slower as there are hosts for a core.
//   here    one worker, and all processes on this host, which talk over TCP
//
// and `hot` also on hosts whose network is not slowed (hosts_not_slowed).
//
// Each run is a job of its own, in which blocks of the sides take turns, there and back; both tables begin
// with zeros, get the same gradients, and must have the same rows after each pair of blocks, bit by bit.
// Which rows are hot decides how even token's load is, so each run draws them several times; a draw's ratio
// is the median of those of its pairs of blocks, a run's the median of its draws, a case's the median of five
// runs.
//
//   partition.plan_is_right   1 if for every case neither what embers plan recommends, from measurements of
//                             its own with draws of its own, nor what partition = "auto" chooses is the
//                             slower strategy by more than the runs differ
//   partition.wide            seconds of a step of token over those of encoding, case hot
//
// These are of `hosts`; those of `here` are named so. Without namespaces there is only `here`.
#include <algorithm>
#include <numeric>

#include "apps/plan/plan.h"
#include "apps/plan/profiled_job.h"
#include "apps/process/private_folder.h"
#include "base/cpus.h"
#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/harness/machine.h"
#include "bench/hosts/local_hosts.h"
#include "bench/partition/far_worker.h"
#include "schema/partition.h"

namespace embers {
namespace {

using Json = nlohmann::json;
using plan::ProfiledJob;

constexpr uint32_t kShards = 2;
constexpr uint32_t kWorkers = 4;  // on hosts of their own
constexpr uint32_t kHosts = 1 + kShards + kWorkers;
constexpr double kGbits = 1, kDelay = 50e-6;  // of each card; seconds from host to host
constexpr size_t kMinibatches = 8;
constexpr Partition kBoth[] = {Partition::kToken, Partition::kEncoding};

struct Case {
  std::string name;
  int64_t rows;
  uint32_t dim;
  size_t keys;  // of a minibatch
  size_t of;    // it draws from so many rows
  int draws;    // of these, in a run
};

struct Effort {
  int runs;
  size_t rounds;  // pairs of blocks of a draw
  double block_seconds;
  double plan_seconds;
};

TableSpec table_of(const Case& c) {
  TableSpec table;
  table.name = c.name;
  table.dim = c.dim;
  table.input_dim = c.rows;
  table.update_rule = {"adagrad", {{"learning_rate", 0.01}}};
  return table;
}

job::Job sync_job(const plan::Surroundings& surroundings) {
  job::Job job;
  job.training.mode = job::Mode::kSync;
  job.training.workers = surroundings.workers;
  if (surroundings.place) job.storage.network_gbits = kGbits;
  return job;
}

// Keys of minibatches that use the same few rows, or any.
class Draws {
 public:
  explicit Draws(const Case& c) : case_(c), ids_(static_cast<size_t>(c.rows)) {
    std::iota(ids_.begin(), ids_.end(), 0);
  }

  std::vector<Keys> next() {
    std::shuffle(ids_.begin(), ids_.end(), random_);
    const auto of = ids_.begin() + static_cast<long>(case_.of),
               keys = ids_.begin() + static_cast<long>(case_.keys);
    std::vector<Keys> minibatches;
    for (size_t m = 0; m < kMinibatches; ++m) {
      std::shuffle(ids_.begin(), of, random_);
      minibatches.emplace_back(std::vector<int64_t>(ids_.begin(), keys));
    }
    return minibatches;
  }

 private:
  const Case& case_;
  std::vector<int64_t> ids_;
  std::mt19937_64 random_{7};
};

// The share of the keys that the busiest shard has with token, the mean over minibatches.
double busiest_share(const std::vector<Keys>& minibatches) {
  const OwnerMap map = even_owner_map(kShards);
  double sum = 0;
  for (const Keys& keys : minibatches) {
    std::vector<size_t> counts(kShards);
    for (size_t i = 0; i < keys.size(); ++i) ++counts[owner_of(map, hash_key(keys.view(), i))];
    sum += static_cast<double>(*std::max_element(counts.begin(), counts.end())) /
           static_cast<double>(keys.size());
  }
  return sum / static_cast<double>(minibatches.size());
}

// One strategy in one draw.
struct Side {
  std::vector<plan::Minibatch> minibatches;
  std::vector<double> seconds;  // of a step, by block
  plan::Step last;

  void run(ProfiledJob& job, size_t steps) {
    last = job.run(minibatches, steps);
    seconds.push_back(last.seconds);
  }
};

struct Draw {
  double busiest_share = 0;
  double ratio = 0;                // token over encoding, the median of pairs of blocks
  double token = 0, encoding = 0;  // seconds of a step
  double token_bytes = 0, encoding_bytes = 0;
  size_t compared = 0;  // pairs of blocks whose rows were; a machine that is too busy may leave none
};

Draw measure(const std::vector<Keys>& keys, ProfiledJob& job, const Effort& effort) {
  Side sides[2];
  double slowest = 0;
  for (size_t t = 0; t < 2; ++t) {
    for (const Keys& k : keys) sides[t].minibatches.push_back({{t, k}});
    job.run(sides[t].minibatches, kMinibatches);  // rows come into being
    slowest = std::max(slowest, job.run(sides[t].minibatches, kMinibatches).seconds);
  }
  const size_t steps =
      kMinibatches * std::max<size_t>(1, static_cast<size_t>(effort.block_seconds / slowest) / kMinibatches);
  size_t compared = 0;
  for (size_t round = 0; round < effort.rounds; ++round) {
    for (const size_t t : {round % 2, 1 - round % 2}) sides[t].run(job, steps);
    if (!sides[0].last.in_order || !sides[1].last.in_order) continue;
    ++compared;
    if (sides[0].last.rows != sides[1].last.rows)
      fail(ErrorCode::kInternal, "a table has other rows with encoding than with token");
  }
  const auto bytes = [](const plan::Step& step) { return step.sent + step.received; };
  return {busiest_share(keys),
          plan::paired_ratio(sides[0].seconds, sides[1].seconds),
          median(sides[0].seconds),
          median(sides[1].seconds),
          bytes(sides[0].last),
          bytes(sides[1].last),
          compared};
}

struct Verdict {
  Json report;
  Estimate ratio;  // seconds of token over those of encoding
  bool is_right;
};

// Chance makes no strategy the faster one.
bool is_slower(Partition partition, const Estimate& token_over_encoding) {
  return partition == Partition::kToken ? token_over_encoding.low > 1 : token_over_encoding.high < 1;
}

Verdict measure(const Case& c, const Effort& effort, const plan::Surroundings& surroundings) {
  std::vector<TableSpec> tables(2, table_of(c));
  for (size_t t = 0; t < 2; ++t) tables[t].partition = kBoth[t];
  Draws draws(c);
  std::vector<double> ratios, token, encoding;
  Json runs;
  Draw last;
  size_t compared = 0;
  for (int r = 0; r < effort.runs; ++r) {
    ProfiledJob job(sync_job(surroundings), tables, kShards, surroundings);
    std::vector<double> of_run;
    Json& run = runs.emplace_back(Json::array());
    for (int d = 0; d < c.draws; ++d) {
      last = measure(draws.next(), job, effort);
      compared += last.compared;
      of_run.push_back(last.ratio);
      token.push_back(last.token);
      encoding.push_back(last.encoding);
      run.push_back({{"busiest_share", last.busiest_share},
                     {"token_seconds", last.token},
                     {"encoding_seconds", last.encoding},
                     {"ratio", last.ratio}});
    }
    ratios.push_back(median(of_run));
  }
  const Estimate ratio = median_estimate(ratios);
  plan::Workload workload;
  workload.job = sync_job(surroundings);
  workload.tables = {table_of(c)};
  for (size_t m = 0; m < kMinibatches; ++m) workload.keys.push_back({draws.next()[0]});
  const plan::Plan plan = plan::make_plan(
      workload, {kShards}, {.seconds = effort.plan_seconds}, [](const std::string&) {}, surroundings);
  const plan::TablePlan& planned = plan.shards[0].tables[0];
  const double mean_ratio = std::accumulate(token.begin(), token.end(), 0.0) /
                            std::accumulate(encoding.begin(), encoding.end(), 0.0);
  fmt::print(
      "{:<8} {:>7} x {:<5} {:>5} keys  token {:>8.3f} ms  encoding {:>8.3f} ms  ratio {:.3f} ({:.3f} to "
      "{:.3f}), "
      "of means {:.3f}  plan {}, auto {}\n",
      c.name, c.rows, c.dim, c.keys, 1e3 * median(token), 1e3 * median(encoding), ratio.value, ratio.low,
      ratio.high, mean_ratio, name(planned.recommended), name(planned.automatic));
  std::fflush(stdout);
  const char* const faster = is_slower(Partition::kToken, ratio)      ? "encoding"
                             : is_slower(Partition::kEncoding, ratio) ? "token"
                                                                      : "neither";
  return {{{"case", c.name},
           {"rows", c.rows},
           {"dim", c.dim},
           {"keys", c.keys},
           {"keys_drawn_from", c.of},
           {"runs", runs},
           {"compared", compared},
           {"token_seconds", median(token)},
           {"encoding_seconds", median(encoding)},
           {"token_bytes", last.token_bytes},
           {"encoding_bytes", last.encoding_bytes},
           {"ratios", ratios},
           {"ratio", ratio.value},
           {"ratio_of_means", mean_ratio},
           {"faster", faster},
           {"plan", name(planned.recommended)},
           {"plan_ratio", planned.ratio},
           {"auto", name(planned.automatic)},
           {"auto_because", planned.automatic_why}},
          ratio,
          !is_slower(planned.recommended, ratio) && !is_slower(planned.automatic, ratio)};
}

// The master has the first host, then come the shards, then the workers.
plan::Surroundings on_hosts(const LocalHosts& hosts, const PrivateFolder& folder) {
  plan::Surroundings surroundings;
  surroundings.workers = kWorkers;
  surroundings.master = LocalHosts::ipv4(0) + ":7700";
  surroundings.place = [&hosts](const std::string& role, uint32_t number, const auto& command) {
    return hosts.on(role == "master" ? 0 : static_cast<int>(1 + number), command);
  };
  surroundings.worker = [&](uint32_t number, const client::WorkerOptions& options) {
    return start_far_worker(folder.path(), fmt::format("worker-{}", number), options,
                            [&, number](const auto& command) {
                              return hosts.on(static_cast<int>(1 + kShards + number), command);
                            });
  };
  return surroundings;
}

const Case kHot{"hot", 512, 4096, 4, 4, 7};
const std::vector<Case> kCases{kHot,
                               {"hot_8", 512, 4096, 8, 8, 7},
                               {"wide", 512, 4096, 64, 512, 1},
                               {"narrow", 1'000'000, 16, 4096, 1'000'000, 1}};

struct Place {
  Json report;
  Estimate hot;  // ratio of the case
  bool is_right = true;
};

Place measure(const std::string& name, const std::vector<Case>& cases, const Effort& effort,
              const plan::Surroundings& surroundings) {
  Place place;
  place.report["workers"] = surroundings.workers;
  fmt::print("{}\n", name);
  for (const Case& c : cases) {
    Effort of_case = effort;
    if (c.draws == 1) of_case.block_seconds *= 2.5;
    const Verdict verdict = measure(c, of_case, surroundings);
    place.report["cases"].push_back(verdict.report);
    place.is_right = place.is_right && verdict.is_right;
    if (c.name == kHot.name) place.hot = verdict.ratio;
  }
  place.report["load"] = machine()["load"];  // of the last minute
  return place;
}

void add_targets(Json& report, const Place& place, const std::string& sizes) {
  Json more;
  more["targets"] = {target("partition.plan_is_right", place.is_right ? 1 : 0, 1),
                     target("partition.wide", place.hot, 1.2)};
  if (!sizes.empty()) name_sizes(more, sizes);
  for (const Json& t : more["targets"]) report["targets"].push_back(t);
}

// Quickly: only the case hot, as the target says.
void measure_hosts(Json& report, LocalHosts& hosts, const Effort& effort, bool quick) {
  const PrivateFolder folder{16};
  const plan::Surroundings surroundings = on_hosts(hosts, folder);
  const auto measure_with = [&](const std::string& name, const std::vector<Case>& cases, double slower) {
    hosts.set_rate(kGbits * 1e9 / slower);
    hosts.set_delay(kDelay * slower);
    const Place place = measure(name, cases, effort, surroundings);
    report["places"][name] = place.report;
    report["places"][name].update({{"network_gbits", kGbits / slower}, {"slower", slower}});
    return place;
  };
  const double slower =
      std::max(1.0, static_cast<double>(kHosts) / static_cast<double>(allowed_cpus().size()));
  add_targets(report, measure_with("hosts", quick ? std::vector{kHot} : kCases, slower),
              quick ? "quick" : "");
  if (slower > 1 && !quick) measure_with("hosts_not_slowed", {kHot}, 1);
}

}  // namespace

int bench_partition(const BenchOptions& options) {
  Json report = begin_report("partition", options);
  report["shards"] = kShards;
  const Effort effort = options.quick ? Effort{1, 1, 0.02, 1} : Effort{5, 4, 0.1, 10};
  LocalHosts hosts(kHosts);
  report["hosts_forbidden"] = hosts.forbidden();
  if (hosts.forbidden().empty())
    measure_hosts(report, hosts, effort, options.quick);
  else
    fmt::print("no hosts but this one, without namespaces and TUN devices: {}\n", hosts.forbidden());
  const Place here = measure("here", kCases, effort, {});
  report["places"]["here"] = here.report;
  add_targets(report, here, "here");
  return end_report(report, options);
}

}  // namespace embers
