// embers bench train: training by embers, in a master, a shard and a worker process, compared with the same
// model in one plain libtorch process.
//
// wide_deep, deepfm and dlrm (dim 16; layers: the zoo's default ones, and with --large those of DeepRec's
// modelzoo) on generated Criteo data, ids hashed to 100 000 a column, batch 2048, Adam. Both read the same
// minibatches by the same reader, in the same order; the plain process, this one, reads the next minibatch on
// a thread of its own while it trains. Sides take turns: embers, plain with one thread, plain with two; each
// begins anew, and only the epochs after the first count, when every row is there. A side's time is its
// median epoch, that of the plain side with the better number of threads. embers pulls a minibatch's rows
// before the gradients of the one before are applied (prefetch 1); its least test loss must agree with that
// of a plain run, not timed, that applies gradients as late.
//
//   train.<model>            examples a second of embers over plain
//   train.<model>.embedding  plain: lookups, their backward and SparseAdam; embers: all of the worker's time
//                            but forward and backward of the dense part
//   train.dedupe_mids        M ids a second that dedupe takes, where ids fit the cache
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/models/dedupe.h"
#include "bench/models/job.h"
#include "bench/peers/plain_models.h"
#include "data/dataset.h"
#include "data/synth.h"
#include "model/step.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr std::array<uint32_t, 2> kThreads{1, 2};
constexpr double kHopeless =
    3;  // a number of threads is given up on when it is this many times slower than another

const std::array<JobShape, 3> kDefault{{{"wide_deep", ""}, {"deepfm", ""}, {"dlrm", ""}}};
const std::array<JobShape, 3> kLarge{{{"wide_deep", "hidden = [1024, 512, 256]"},
                                      {"deepfm", "hidden = [1024, 256, 32]"},
                                      {"dlrm", "bottom = [512, 256, 64]\ntop = [512, 256]"}}};

// How long a run is.
struct Length {
  uint64_t rows;
  uint32_t epochs;
  int rounds;
  double farthest;  // that losses may be apart; after few steps, it shows which gradients were late
};

// One epoch of a side, per example.
struct Epoch {
  double seconds = 0, dense = 0, embedding = 0;
  Json parts;  // seconds
};

struct Run {
  std::vector<Epoch> epochs;    // after the first
  double first_loss = 0;        // training, first epoch
  double test_loss = INFINITY;  // the least after an epoch
};

Run run_embers(const std::string& job_file, const std::string& dir) {
  const Json report = run_as_processes(job_file, dir);
  Run run;
  for (const Json& epoch : report["epochs"]) {
    const auto examples = epoch["examples"].get<double>();
    const double seconds = epoch["seconds"].get<double>() / examples;
    const double dense = epoch["stage_seconds"]["dense"].get<double>() / examples;
    run.epochs.push_back({seconds, dense, seconds - dense, epoch["stage_seconds"]});
    for (Json& part : run.epochs.back().parts) part = part.get<double>() / examples;
    run.test_loss = std::min(run.test_loss, epoch["test_loss"].get<double>());
  }
  run.first_loss = report["epochs"][0]["loss"].get<double>();
  run.epochs.erase(run.epochs.begin());
  return run;
}

// Of this process, all threads.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Minibatches of an epoch in order, the next one read on a thread of its own.
class ReadAhead {
 public:
  ReadAhead(const std::shared_ptr<const data::Dataset>& dataset, bool shuffle, uint64_t epoch)
      : minibatches_(dataset->minibatches()),
        epoch_(epoch),
        reader_(data::MinibatchReader::make(dataset, shuffle)) {
    read();
  }
  bool more() const { return next_.valid(); }
  data::Minibatch next() {
    data::Minibatch minibatch = next_.get();
    read();
    return minibatch;
  }

 private:
  void read() {
    if (number_ < minibatches_)
      next_ = std::async(std::launch::async, [this, i = number_++] { return reader_->read(epoch_, i); });
  }
  const uint64_t minibatches_, epoch_;
  const std::unique_ptr<data::MinibatchReader> reader_;
  uint64_t number_ = 0;
  std::future<data::Minibatch> next_;
};

double mean_loss(PlainModel& model, const std::shared_ptr<const data::Dataset>& test) {
  double loss = 0, examples = 0;
  for (ReadAhead minibatches(test, false, 0); minibatches.more();) {
    const data::Minibatch m = minibatches.next();
    loss += model.evaluate(m) * static_cast<double>(m.examples);
    examples += static_cast<double>(m.examples);
  }
  return loss / examples;
}

// Ends before the first epoch that counts when an example takes more than `hopeless` seconds.
Run run_plain(const job::Job& job, const std::shared_ptr<const data::Dataset>& train,
              const std::shared_ptr<const data::Dataset>& test, uint32_t threads, double hopeless,
              bool late = false) {
  set_threads(threads);
  const auto model = PlainModel::make(job, late);
  Run run;
  for (uint64_t e = 1; e <= job.training.epochs; ++e) {
    PlainModel::Times times;
    double loss = 0, examples = 0, wait = 0;
    const auto begin = BenchClock::now();
    const double cpu = cpu_seconds();
    for (ReadAhead minibatches(train, true, e); minibatches.more();) {
      const auto asked = BenchClock::now();
      const data::Minibatch m = minibatches.next();
      wait += seconds_since(asked);
      loss += model->train(m, times) * static_cast<double>(m.examples);
      examples += static_cast<double>(m.examples);
    }
    const double seconds = seconds_since(begin) / examples;
    if (seconds > hopeless) break;
    const double used = (cpu_seconds() - cpu) / examples;
    run.test_loss = std::min(run.test_loss, mean_loss(*model, test));
    if (e == 1) run.first_loss = loss / examples;
    if (e > 1)
      run.epochs.push_back({seconds, times.dense / examples, times.embedding() / examples,
                            Json{{"cpu", used},
                                 {"wait", wait / examples},
                                 {"lookup", times.lookup / examples},
                                 {"dense", times.dense / examples},
                                 {"gradient", times.gradient / examples},
                                 {"sparse_adam", times.sparse_adam / examples},
                                 {"dense_adam", times.dense_adam / examples}}});
  }
  return run;
}

// The runs of one side.
struct Side {
  std::vector<Epoch> epochs;
  Run last;
  void add(Run run) {
    epochs.insert(epochs.end(), run.epochs.begin(), run.epochs.end());
    last = std::move(run);
  }
  const Epoch& median() {
    const auto middle = epochs.begin() + static_cast<std::ptrdiff_t>(epochs.size() / 2);
    std::nth_element(epochs.begin(), middle, epochs.end(),
                     [](const Epoch& a, const Epoch& b) { return a.seconds < b.seconds; });
    return *middle;
  }
  Json json() {
    const Epoch& e = median();
    Json parts = e.parts;
    for (Json& part : parts) part = part.get<double>() * 1e6;
    return {{"examples_per_second", 1 / e.seconds},
            {"us_per_example", e.seconds * 1e6},
            {"dense_us", e.dense * 1e6},
            {"embedding_us", e.embedding * 1e6},
            {"parts_us", parts},
            {"first_loss", last.first_loss},
            {"test_loss", last.test_loss}};
  }
};

void check_losses(const std::string& model, const Run& embers, const Run& late, double farthest) {
  if (!(std::abs(embers.test_loss - late.test_loss) <= farthest))
    fail(ErrorCode::kInternal,
         "{}: the test loss is {} with embers, but {} in the plain run with late gradients", model,
         embers.test_loss, late.test_loss);
}

Json measure(const JobShape& shape, const Length& length, const std::string& dir) {
  const std::string text = criteo_job(shape, dir, length.epochs, 1), file = dir + "/job.toml";
  std::ofstream(file) << text;
  const job::Job job = job::parse_job({file, text, {}});
  const auto train = data::Dataset::open(job, data::Split::kTrain, "");
  const auto test = data::Dataset::open(job, data::Split::kTest, "");
  Side embers;
  std::array<Side, 2> plain;
  const Run late = run_plain(job, train, test, kThreads[0], INFINITY, true);
  for (int round = 0; round < length.rounds; ++round) {
    embers.add(run_embers(file, dir));
    check_losses(shape.model, embers.last, late, length.farthest);
    for (size_t t = 0; t < kThreads.size(); ++t) {
      if (round > 0 && plain[t].epochs.empty()) continue;
      const double hopeless = t == 0 ? INFINITY : kHopeless * plain[0].median().seconds;
      plain[t].add(run_plain(job, train, test, kThreads[t], hopeless));
    }
  }
  const bool two = !plain[1].epochs.empty();
  Side& best = two && plain[1].median().seconds < plain[0].median().seconds ? plain[1] : plain[0];
  // The one with the cheaper embeddings, whichever is faster as a whole.
  const double embedding =
      two ? std::min(plain[0].median().embedding, plain[1].median().embedding) : plain[0].median().embedding;
  Json json{{"model", shape.model},
            {"layers", shape.layers.empty() ? "default" : shape.layers},
            {"embers", embers.json()},
            {"plain_one_thread", plain[0].json()},
            {"plain_two_threads", two ? plain[1].json() : Json("given up: slower by far")},
            {"ratio", best.median().seconds / embers.median().seconds},
            {"embedding_ratio", embedding / embers.median().embedding},
            {"late_test_loss", late.test_loss}};
  const auto us = [](double s) { return s * 1e6; };
  fmt::print(
      "{:<9} {:<7}  {:8.0f} {:6.2f} {:6.2f} {:6.2f}  {:8.0f} {:6.2f} {:6.2f} {:6.2f} ({})   {:5.2f} {:5.2f}  "
      " {:.3f} {:.3f} {:.3f}\n",
      shape.model, shape.layers.empty() ? "default" : "large", 1 / embers.median().seconds,
      us(embers.median().seconds), us(embers.median().dense), us(embers.median().embedding),
      1 / best.median().seconds, us(best.median().seconds), us(best.median().dense),
      us(best.median().embedding), &best == &plain[0] ? 1 : 2, json["ratio"].get<double>(),
      json["embedding_ratio"].get<double>(), embers.last.test_loss, best.last.test_loss, late.test_loss);
  std::fflush(stdout);
  return json;
}

}  // namespace

int bench_train(const BenchOptions& options) {
  Json report = begin_report("train", options, options.quick ? "quick" : "");
  report["dedupe"] = measure_dedupe(options.quick ? 200 : 2000);
  fmt::print("dedupe: {:.0f} M ids/s, limit {:.0f}\n", report["dedupe"]["mids"].get<double>(),
             report["dedupe"]["limit_mids"].get<double>());
  const Length length = options.quick ? Length{30'000, 3, 2, 0.05} : Length{110'000, 3, 3, 0.03};
  const BenchFolder folder;
  data::write_criteo(length.rows, 7, folder.path);
  fmt::print(
      "us an example       embers                            plain libtorch               (threads)   ratios "
      "      "
      "   test loss\n"
      "model     layers   examples/s   step  dense  embed.  examples/s   step  dense  embed.         whole "
      "embed. "
      "  embers plain late\n");
  for (const JobShape& shape : kDefault) {
    const Json point = measure(shape, length, folder.path);
    report["targets"].push_back(target("train." + shape.model, point["ratio"].get<double>(), 1));
    report["targets"].push_back(
        target("train." + shape.model + ".embedding", point["embedding_ratio"].get<double>(), 1.5));
    report["grid"].push_back(point);
  }
  if (!options.quick)
    for (const JobShape& shape : kLarge)
      report["grid"].push_back(measure(shape, {length.rows, 2, 2, 0.05}, folder.path));
  report["targets"].push_back(target("train.dedupe_mids", report["dedupe"]["mids"].get<double>(), 100));
  return end_report(report, options);
}

}  // namespace embers
