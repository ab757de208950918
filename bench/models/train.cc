// embers bench train: training by embers, in a master, a shard and a worker process, compared with the same
// model in one plain libtorch process.
//
// wide_deep, deepfm and dlrm (dim 16; layers: the zoo's default ones, and with --large also those of
// DeepRec's modelzoo) on generated Criteo data, ids hashed to 100 000 a column, batch 2048, Adam. Both read
// the same minibatches by the same reader, in the same order; the plain process reads the next minibatch on a
// thread of its own while it trains. It has its tables in one of two ways, as an EmbeddingBag each with
// SparseAdam, or as one matrix with Adam in one loop (bench/peers/plain_tables.h). Sides take turns in the
// harness's way, each run from the beginning; both ways, one thread and two, glibc's malloc and mimalloc, and
// both scheduling policies are tried, and the best one counts. The plain process's heap is in huge pages, as
// a shard's rows are. Only the epochs after the first count, when every row is there, and a run's time is its
// median epoch.
//
// Then both sides train to a given test loss, with five seeds (first values, order of the examples; --quick:
// three), the plain side in its best configuration. embers pulls a minibatch's rows before the gradients of
// the one before are applied (prefetch 1), or just after, as it comes; its report says for how many. So its
// least test loss must agree with that of plain runs, not timed, in which as many gradients of rows are late,
// in the mean over the seeds: which ones they are differs from run to run.
//
//   train.<model>            examples a second of embers over plain; limit: were its trainer to do nothing
//                            but the dense part
//   train.<model>.cpu        the same for a second of all threads of all processes. Start and first epoch do
//                            not count: embers' are measured by a job of one epoch. Evaluations do, on both
//                            sides
//   train.<model>.to_loss    the plain side's seconds of training to a given test loss over embers',
//                            medians of the seeds. The first epoch counts, start and evaluations do not
//   train.<model>.embedding  plain: lookups, their backward and SparseAdam, where that takes least;
//                            embers: all of the worker's time but forward and backward of the dense part
//   train.dedupe_mids        M ids a second that dedupe takes, where ids fit the cache
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/harness/processes.h"
#include "bench/models/dedupe.h"
#include "bench/models/job.h"
#include "bench/models/plain_run.h"
#include "data/synth.h"

namespace embers {
namespace {

using Json = nlohmann::json;

const std::array<JobShape, 3> kDefault{{{"wide_deep", ""}, {"deepfm", ""}, {"dlrm", ""}}};
const std::array<JobShape, 3> kLarge{{{"wide_deep", "hidden = [1024, 512, 256]"},
                                      {"deepfm", "hidden = [1024, 256, 32]"},
                                      {"dlrm", "bottom = [512, 256, 64]\ntop = [512, 256]"}}};

// How long a comparison is.
struct Length {
  uint64_t rows;
  uint32_t epochs;
  size_t tries, rounds, seeds;
  double farthest;  // that mean losses may be apart; after few steps, it shows which gradients were late
};

using PlainProcesses = std::map<std::string, std::unique_ptr<PlainProcess>>;  // by malloc

// mimalloc is left out where it is not installed; the report says so.
PlainProcesses start_plain_processes(Json& report) {
  PlainProcesses processes;
  processes["glibc"] = std::make_unique<PlainProcess>(false);
  try {
    processes["mimalloc"] = std::make_unique<PlainProcess>(true);
  } catch (const Error& e) {
    report["left_out"]["mimalloc"] = e.what();
  }
  return processes;
}

constexpr double kNever = 1000;  // times its epochs take as long as a run that does not reach its loss

// The test loss to which both sides train: one that nearly every run reaches, in the first or second epoch.
struct Goal {
  double full, quick;
};
const std::map<std::string, Goal> kGoals{
    {"wide_deep", {0.52, 0.56}}, {"deepfm", {0.53, 0.56}}, {"dlrm", {0.54, 0.56}}};

// Of all that this process has waited for.
double cpu_seconds_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x;
  return sum / static_cast<double>(values.size());
}

// The sides of one model.
class Comparison {
 public:
  // goal: the test loss to train to, if any.
  Comparison(const JobShape& shape, const Length& length, std::optional<double> goal, const std::string& dir,
             const PlainProcesses& processes)
      : shape_(shape), length_(length), goal_(goal), dir_(dir) {
    write_files(1);
    // Its processes choose their scheduling policies themselves.
    contest_.add("embers", "its own", [this] { return keep("embers, its own", run_embers()); });
    for (const uint32_t threads : {1u, 2u})
      for (const bool stacked : {true, false})
        for (const auto& [malloc, process] : processes) add_plain(threads, stacked, malloc, *process);
  }

  Json measure() {
    contest_.choose(length_.tries, true);
    contest_.measure(length_.rounds);
    const std::string one = plain_side(1), two = plain_side(2), best = contest_.fastest({one, two});
    const std::string thrifty = contest_.thrift(one, two).value > 1 ? one : two;
    speed_ = contest_.speed("embers", best);
    thrift_ = contest_.thrift("embers", thrifty);
    const Epoch embers = last("embers").median(), plain = last(best).median();
    const double embedding =
        std::min(median_embedding(runs_.at(name_of(one))), median_embedding(runs_.at(name_of(two))));
    limit_ = plain.seconds / embers.dense;
    embedding_ = embedding / median_embedding(runs_.at(name_of("embers")));
    const Json seeds = train_seeds(plain_.at(name_of(best)));
    const auto us = [](double seconds) { return seconds * 1e6; };
    fmt::print(
        "{:<9} {:<7}  {:8.0f} {:6.2f} {:6.2f} {:6.2f}  {:8.0f} {:6.2f} {:6.2f} {:6.2f}   {:5.2f} {:5.2f} "
        "{:5.2f} {:5.2f}   {:.4f} {:.4f} {:.4f}   {}\n",
        shape_.model, layers(), 1 / embers.seconds, us(embers.seconds), us(embers.dense),
        us(embers.embedding), 1 / plain.seconds, us(plain.seconds), us(plain.dense), us(plain.embedding),
        speed_.value, thrift_.value, embedding_.value, to_loss_.value, mean(losses_["embers"]),
        mean(losses_["plain"]), mean(losses_["late"]),
        fmt::format("{}, {}", best, contest_.configuration(best)));
    std::fflush(stdout);
    const auto figure = [](const Estimate& e) {
      return Json{{"median", e.value}, {"low", e.low}, {"high", e.high}};
    };
    const Json report{
        {"model", shape_.model},
        {"layers", shape_.layers.empty() ? "default" : shape_.layers},
        {"sides", contest_.json()},
        {"ratio", figure(speed_)},
        {"cpu_ratio", figure(thrift_)},
        {"embedding_ratio", embedding_.value},
        {"to_loss", seeds},
        {"parts_us", {{"embers", parts(embers)}, {"plain", parts(plain)}}},
        {"test_loss",
         {{"embers", losses_["embers"]}, {"plain", losses_["plain"]}, {"late", losses_["late"]}}}};
    return report;
  }

  // Why the run must fail, if it must: embers and the plain runs do not learn the same.
  std::optional<std::string> losses_apart() const {
    const double embers = mean(losses_.at("embers")), late = mean(losses_.at("late"));
    if (std::abs(embers - late) <= length_.farthest) return std::nullopt;
    return fmt::format(
        "{}, {} layers: the mean test loss is {:.4f} with embers, but {:.4f} in plain runs with late "
        "gradients",
        shape_.model, layers(), embers, late);
  }

  void add_targets(Json& targets) const {
    const std::string name = "train." + shape_.model;
    targets.push_back(target(name, speed_, 1.3, limit_));
    targets.push_back(target(name + ".cpu", thrift_, 1.0));
    targets.push_back(target(name + ".to_loss", to_loss_, 1.2));
    targets.push_back(target(name + ".embedding", embedding_, 1.5));
  }

 private:
  static std::string plain_side(uint32_t threads) {
    return threads == 1 ? "plain_one_thread" : "plain_two_threads";
  }
  std::string layers() const { return shape_.layers.empty() ? "default" : "large"; }
  std::string file_of(uint32_t epochs, uint64_t seed) const {
    return fmt::format("{}/job{}-{}.toml", dir_, epochs, seed);
  }

  // Writes the job's files for this seed: of all its epochs, and of one.
  void write_files(uint64_t seed) const {
    JobShape shape = shape_;
    shape.seed = seed;
    for (const uint32_t epochs : {1u, length_.epochs})
      std::ofstream(file_of(epochs, seed)) << criteo_job(shape, dir_, epochs, 1);
  }

  // A configuration of the plain side.
  struct Plain {
    PlainWay way;
    PlainProcess* process;  // under the malloc that it is tried with
  };
  TrainingRun run(const Plain& plain, uint64_t seed) const {
    return plain.process->run(file_of(length_.epochs, seed), plain.way);
  }

  Cost keep(const std::string& name, TrainingRun run) {
    const Cost cost{run.median().seconds, run.cpu_seconds};
    runs_[name].push_back(std::move(run));
    return cost;
  }

  void add_plain(uint32_t threads, bool stacked, const std::string& malloc, PlainProcess& process) {
    for (const Policy policy : kPolicies) {
      const Plain plain{{threads, {stacked, 0}, policy}, &process};
      const std::string side = plain_side(threads);
      const std::string configuration =
          fmt::format("{}, {}, {}", stacked ? "stacked" : "bags", malloc, name(policy));
      const std::string name = side + ", " + configuration;
      plain_[name] = plain;
      contest_.add(side, configuration, [=, this] { return keep(name, run(plain, 1)); });
    }
  }

  TrainingRun run_embers() {
    const double begin = cpu_seconds_of_children();
    run_as_processes(file_of(1, 1), dir_);
    const double middle = cpu_seconds_of_children();
    TrainingRun run = run_embers_with(1);
    const double end = cpu_seconds_of_children();
    run.cpu_seconds = ((end - middle) - (middle - begin)) / run.examples;
    return run;
  }

  // With this seed, without CPU seconds.
  TrainingRun run_embers_with(uint64_t seed) {
    const Json report = run_as_processes(file_of(length_.epochs, seed), dir_);
    staleness_.push_back(report["mean_staleness"].get<double>());
    TrainingRun run;
    run.course.push_back({0, seed > first_losses_.size() ? NAN : first_losses_[seed - 1]});
    for (const Json& epoch : report["epochs"]) {
      const double all = epoch["seconds"].get<double>();
      run.course.push_back({run.course.back().seconds + all, epoch["test_loss"].get<double>()});
      if (&epoch == &report["epochs"][0]) continue;
      const auto n = epoch["examples"].get<double>();
      const double seconds = all / n, dense = epoch["stage_seconds"]["dense"].get<double>() / n;
      run.epochs.push_back({seconds, dense, seconds - dense, epoch["stage_seconds"]});
      for (Json& part : run.epochs.back().parts) part = part.get<double>() / n;
      run.examples += n;
    }
    return run;
  }

  // Trains to the given loss, or all epochs, with each seed, both sides in turns, and plain runs with late
  // gradients.
  Json train_seeds(const Plain& plain) {
    Json courses;
    const double staleness = std::min(1.0, mean(staleness_));  // of the runs before
    for (uint64_t seed = 1; seed <= length_.seeds; ++seed) {
      write_files(seed);
      const TrainingRun late = run({{1, {true, staleness}}, plain.process}, seed);
      first_losses_.push_back(late.course.front().loss);
      note("late", late, courses);
    }
    Contest contest;
    uint64_t of_embers = 0, of_plain = 0;
    contest.add("embers", "its own", [&] { return note("embers", run_embers_with(++of_embers), courses); });
    contest.add("plain", "", [&] { return note("plain", run(plain, ++of_plain), courses); });
    contest.measure(length_.seeds);
    to_loss_ = contest.speed("embers", "plain");
    return {{"loss", goal_.value_or(0)},
            {"late_share", staleness},
            {"sides", contest.json()},
            {"courses", courses}};
  }

  // What a run of the next seed came to.
  Cost note(const std::string& side, const TrainingRun& run, Json& courses) {
    losses_[side].push_back(run.test_loss());
    Json course = Json::array();
    for (const LossAt& at : run.course) course.push_back({at.seconds, at.loss});
    courses[side].push_back(course);
    if (!goal_) return {run.course.back().seconds};
    const double seconds = seconds_to_loss(run.course, *goal_);
    return {std::isfinite(seconds) ? seconds : kNever * run.course.back().seconds};
  }

  std::string name_of(const std::string& side) const {
    for (const auto& [name, runs] : runs_)
      if (name.starts_with(side + ",") && name.ends_with(contest_.configuration(side))) return name;
    fail(ErrorCode::kInternal, "the benchmark has no runs of {}", side);
  }
  const TrainingRun& last(const std::string& side) const { return runs_.at(name_of(side)).back(); }
  static double median_embedding(const std::vector<TrainingRun>& runs) {
    std::vector<double> seconds;
    for (const TrainingRun& run : runs) seconds.push_back(run.median().embedding);
    return embers::median(seconds);
  }
  static Json parts(const Epoch& epoch) {
    Json parts = epoch.parts;
    for (Json& part : parts) part = part.get<double>() * 1e6;
    return parts;
  }

  const JobShape shape_;
  const Length length_;
  const std::optional<double> goal_;
  const std::string dir_;
  Contest contest_;
  std::map<std::string, Plain> plain_;                    // by side and configuration
  std::map<std::string, std::vector<TrainingRun>> runs_;  // the same
  std::vector<double> staleness_;                         // of the runs of embers, in the mean of each
  std::vector<double> first_losses_;                      // of each seed, before training
  std::map<std::string, std::vector<double>> losses_;     // of each seed, by side
  Estimate speed_, thrift_, embedding_, to_loss_;
  Estimate limit_;  // of speed_: were embers' trainer to do nothing but the dense part
};

}  // namespace

int bench_train(const BenchOptions& options) {
  Json report = begin_report("train", options, options.quick ? "quick" : "");
  const Dedupe dedupe = measure_dedupe(options.quick ? 200 : 1000);
  report["dedupe"] = dedupe.report;
  report["limits"].push_back(limit("train.dedupe", dedupe.of_limit));
  fmt::print("dedupe: {:.0f} M ids/s, limit {:.0f}\n", dedupe.mids.value, dedupe.limit_mids.value);
  const PlainProcesses processes = start_plain_processes(report);
  const Length length = options.quick ? Length{30'000, 3, 1, 2, 3, 0.05} : Length{110'000, 4, 1, 5, 5, 0.01};
  const BenchFolder folder;
  data::write_criteo(length.rows, 7, folder.path);
  fmt::print(
      "us an example       embers                            plain libtorch                     ratios       "
      "     "
      "          mean test loss\n"
      "model     layers   examples/s   step  dense  embed.  examples/s   step  dense  embed.   whole   CPU "
      "embed. to loss embers plain  late\n");
  report["losses_apart"] = Json::array();
  const auto compare = [&](const JobShape& shape, const Length& how_long, std::optional<double> goal) {
    Comparison comparison(shape, how_long, goal, folder.path, processes);
    report["grid"].push_back(comparison.measure());
    if (const auto why = comparison.losses_apart()) report["losses_apart"].push_back(*why);
    if (goal) comparison.add_targets(report["targets"]);
  };
  for (const JobShape& shape : kDefault) {
    const Goal goal = kGoals.at(shape.model);
    compare(shape, length, options.quick ? goal.quick : goal.full);
  }
  if (options.large)  // too few epochs for a given loss; losses are farther apart
    for (const JobShape& shape : kLarge) compare(shape, {length.rows, 2, 1, 1, 3, 0.05}, {});
  report["targets"].push_back(target("train.dedupe_mids", dedupe.mids, 100, dedupe.limit_mids));
  const int status = end_report(report, options);
  if (!report["losses_apart"].empty())
    fail(ErrorCode::kInternal, "{}", fmt::join(report["losses_apart"].get<std::vector<std::string>>(), "; "));
  return status;
}

}  // namespace embers
