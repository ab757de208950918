// embers bench train: training by embers, in a master, a shard and a worker process, compared with the same
// model in one plain libtorch process.
//
// wide_deep, deepfm and dlrm (dim 16; layers: the zoo's default ones, and with --large those of DeepRec's
// modelzoo) on generated Criteo data, ids hashed to 100 000 a column, batch 2048, Adam. Both read the same
// minibatches by the same reader, in the same order; the plain process, this one, reads the next minibatch on
// a thread of its own while it trains. It has its tables in one of two ways, as an EmbeddingBag each with
// SparseAdam, or as one matrix with Adam in one loop (bench/peers/plain_tables.h). Sides take turns in the
// harness's way, each run from the beginning; both ways, one thread and two, and both scheduling policies are
// tried, and the best one counts. Only the epochs after the first count, when every row is there, and a run's
// time is its median epoch. embers pulls a minibatch's rows before the gradients of the one before are
// applied (prefetch 1); its least test loss must agree with that of a plain run, not timed, that applies
// gradients as late.
//
//   train.<model>            examples a second of embers over plain
//   train.<model>.cpu        the same for a second of all threads of all processes. Start and first epoch do
//                            not count: embers' are measured by a job of one epoch. Evaluations do, on both
//                            sides
//   train.<model>.embedding  plain: lookups, their backward and SparseAdam, where that takes least; embers:
//   all
//                            of the worker's time but forward and backward of the dense part
//   train.dedupe_mids        M ids a second that dedupe takes, where ids fit the cache
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

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
  size_t tries, rounds;
  double farthest;  // that losses may be apart; after few steps, it shows which gradients were late
};

// Of all that this process has waited for.
double cpu_seconds_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The sides of one model.
class Comparison {
 public:
  Comparison(const JobShape& shape, const Length& length, const std::string& dir)
      : shape_(shape), length_(length), dir_(dir), job_(job_of(length.epochs)) {
    job_of(1);
    train_ = data::Dataset::open(job_, data::Split::kTrain, "");
    test_ = data::Dataset::open(job_, data::Split::kTest, "");
    late_ = run_plain(job_, train_, test_, 1, {true, true});
    // Its processes choose their scheduling policies themselves.
    contest_.add("embers", "its own", [this] { return keep("embers, its own", run_embers()); });
    for (const uint32_t threads : {1u, 2u})
      for (const bool stacked : {true, false}) add_plain(threads, stacked);
  }

  Json measure() {
    contest_.choose(length_.tries);
    contest_.measure(length_.rounds);
    const std::string one = plain_side(1), two = plain_side(2), best = contest_.fastest({one, two});
    const std::string thrifty = contest_.cpu_seconds(one).value < contest_.cpu_seconds(two).value ? one : two;
    speed_ = contest_.speed("embers", best);
    thrift_ = contest_.thrift("embers", thrifty);
    const Epoch embers = last("embers").median(), plain = last(best).median();
    double embedding = INFINITY;
    for (const auto& [name, runs] : runs_)
      if (name.starts_with("plain")) embedding = std::min(embedding, median_embedding(runs));
    embedding_ = embedding / median_embedding(runs_.at(name_of("embers")));
    const auto us = [](double seconds) { return seconds * 1e6; };
    fmt::print(
        "{:<9} {:<7}  {:8.0f} {:6.2f} {:6.2f} {:6.2f}  {:8.0f} {:6.2f} {:6.2f} {:6.2f}   {:5.2f} {:5.2f} "
        "{:5.2f}   "
        "{:.3f} {:.3f} {:.3f}   {}\n",
        shape_.model, layers(), 1 / embers.seconds, us(embers.seconds), us(embers.dense),
        us(embers.embedding), 1 / plain.seconds, us(plain.seconds), us(plain.dense), us(plain.embedding),
        speed_.value, thrift_.value, embedding_.value, last("embers").test_loss, last(best).test_loss,
        late_.test_loss, fmt::format("{}, {}", best, contest_.configuration(best)));
    std::fflush(stdout);
    const auto figure = [](const Estimate& e) {
      return Json{{"median", e.value}, {"low", e.low}, {"high", e.high}};
    };
    return {
        {"model", shape_.model},
        {"layers", shape_.layers.empty() ? "default" : shape_.layers},
        {"sides", contest_.json()},
        {"ratio", figure(speed_)},
        {"cpu_ratio", figure(thrift_)},
        {"embedding_ratio", embedding_.value},
        {"parts_us", {{"embers", parts(embers)}, {"plain", parts(plain)}}},
        {"test_loss",
         {{"embers", last("embers").test_loss}, {"plain", last(best).test_loss}, {"late", late_.test_loss}}}};
  }

  void add_targets(Json& targets) const {
    const std::string name = "train." + shape_.model;
    targets.push_back(target(name, speed_, 1.3));
    targets.push_back(target(name + ".cpu", thrift_, 1.0));
    targets.push_back(target(name + ".embedding", embedding_, 1.5));
  }

 private:
  static std::string plain_side(uint32_t threads) {
    return threads == 1 ? "plain_one_thread" : "plain_two_threads";
  }
  std::string layers() const { return shape_.layers.empty() ? "default" : "large"; }
  std::string file_of(uint32_t epochs) const { return fmt::format("{}/job{}.toml", dir_, epochs); }

  // Writes the job's file, too.
  job::Job job_of(uint32_t epochs) const {
    const std::string text = criteo_job(shape_, dir_, epochs, 1);
    std::ofstream(file_of(epochs)) << text;
    return job::parse_job({file_of(epochs), text, {}});
  }

  Cost keep(const std::string& name, TrainingRun run) {
    const Cost cost{run.median().seconds, run.cpu_seconds};
    runs_[name].push_back(std::move(run));
    return cost;
  }

  void add_plain(uint32_t threads, bool stacked) {
    const std::string side = plain_side(threads), tables = stacked ? "stacked" : "bags";
    add_with_policies(
        contest_, side, tables, [this](Policy policy) { policy_ = policy; },
        [=, this] {
          set_policy_of_this_process(policy_);
          TrainingRun run = run_plain(job_, train_, test_, threads, {stacked, false});
          set_policy_of_this_process(Policy::kOther);
          return keep(fmt::format("{}, {}, {}", side, tables, name(policy_)), std::move(run));
        });
  }

  TrainingRun run_embers() {
    std::array<double, 2> cpu{};
    Json report;
    double examples = 0;
    for (const uint32_t epochs : {1u, length_.epochs}) {
      const double before = cpu_seconds_of_children();
      report = run_as_processes(file_of(epochs), dir_);
      cpu[epochs == 1 ? 0 : 1] = cpu_seconds_of_children() - before;
    }
    TrainingRun run;
    for (const Json& epoch : report["epochs"]) {
      run.test_loss = std::min(run.test_loss, epoch["test_loss"].get<double>());
      if (&epoch == &report["epochs"][0]) continue;
      const auto n = epoch["examples"].get<double>();
      const double seconds = epoch["seconds"].get<double>() / n;
      const double dense = epoch["stage_seconds"]["dense"].get<double>() / n;
      run.epochs.push_back({seconds, dense, seconds - dense, epoch["stage_seconds"]});
      for (Json& part : run.epochs.back().parts) part = part.get<double>() / n;
      examples += n;
    }
    run.cpu_seconds = (cpu[1] - cpu[0]) / examples;
    if (!(std::abs(run.test_loss - late_.test_loss) <= length_.farthest))
      fail(ErrorCode::kInternal,
           "{}: the test loss is {} with embers, but {} in the plain run with late gradients", shape_.model,
           run.test_loss, late_.test_loss);
    return run;
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
  const std::string dir_;
  const job::Job job_;
  std::shared_ptr<const data::Dataset> train_, test_;
  TrainingRun late_;
  Contest contest_;
  Policy policy_ = Policy::kOther;
  std::map<std::string, std::vector<TrainingRun>> runs_;  // by side and configuration
  Estimate speed_, thrift_, embedding_;
};

}  // namespace

int bench_train(const BenchOptions& options) {
  Json report = begin_report("train", options, options.quick ? "quick" : "");
  report["dedupe"] = measure_dedupe(options.quick ? 200 : 2000);
  fmt::print("dedupe: {:.0f} M ids/s, limit {:.0f}\n", report["dedupe"]["mids"].get<double>(),
             report["dedupe"]["limit_mids"].get<double>());
  const Length length = options.quick ? Length{30'000, 3, 1, 2, 0.05} : Length{110'000, 4, 1, 5, 0.01};
  const BenchFolder folder;
  data::write_criteo(length.rows, 7, folder.path);
  fmt::print(
      "us an example       embers                            plain libtorch                     ratios       "
      " "
      "      test loss\n"
      "model     layers   examples/s   step  dense  embed.  examples/s   step  dense  embed.   whole   CPU "
      "embed.  embers plain late\n");
  for (const JobShape& shape : kDefault) {
    Comparison comparison(shape, length, folder.path);
    report["grid"].push_back(comparison.measure());
    comparison.add_targets(report["targets"]);
  }
  if (!options.quick)  // after two epochs, losses are farther apart
    for (const JobShape& shape : kLarge)
      report["grid"].push_back(Comparison(shape, {length.rows, 2, 1, 1, 0.05}, folder.path).measure());
  report["targets"].push_back(target("train.dedupe_mids", report["dedupe"]["mids"].get<double>(), 100));
  return end_report(report, options);
}

}  // namespace embers
