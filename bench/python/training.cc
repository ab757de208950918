// DLRM and DeepFM with the zoo's default layers, dim 16, batch 2048, Adam, on generated Criteo data, ids
// hashed to 100 000 a column: click_models.py with rows of embers (master, shard and worker are processes of
// their own), and the same script with torch's EmbeddingBag(sparse=True) and SparseAdam, once with a table
// for each column, and once with one for all columns, which is faster. DLRM is also trained by embers' C++
// worker (bench train's job), which reads the same records from a text file, on a thread of its own.
//
// All sides train epoch by epoch in turns, with one thread and with two; epochs after the first count, when
// every row is there. embers pulls a minibatch's rows before the gradients of the one before are applied. A
// run without that, not timed, must reach the loss of the torch script, and all sides must come near it.
//
//   python.<model>_vs_torch        examples a second with embers over those with torch, the better number of
//                                  threads each, and the better of torch's ways; median over rounds
//   python.dlrm_vs_cpp             over those of the C++ worker
#include <array>
#include <cmath>
#include <fstream>
#include <optional>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/models/job.h"
#include "bench/python/peers.h"
#include "bench/python/python.h"
#include "data/dataset.h"
#include "data/synth.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr double kHopeless =
    1.5;  // a side that is this many times slower than the best of its kind is given up

// How far test losses may be apart.
struct Farthest {
  double ahead, at_once;
};

template <class T>
void append(std::ofstream& out, const std::vector<T>& values) {
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(T)));
}

// The records of a split as plain arrays, in file order. Returns their number.
uint64_t write_arrays(const job::Job& job, data::Split split, const std::string& path) {
  const auto dataset = data::Dataset::open(job, split, "");
  const auto reader = data::MinibatchReader::make(dataset, false);
  std::ofstream ids(path + ".ids", std::ios::binary), numeric(path + ".numeric", std::ios::binary),
      labels(path + ".labels", std::ios::binary);
  uint64_t records = 0;
  for (uint64_t i = 0; i < dataset->minibatches(); ++i) {
    const data::Minibatch m = reader->read(1, i);
    records += static_cast<uint64_t>(m.examples);
    std::vector<int64_t> rows;
    for (size_t e = 0; e < static_cast<size_t>(m.examples); ++e)
      for (const Ids& column : m.ids) rows.push_back(column.keys.view().ints[e]);
    append(ids, rows);
    append(numeric, m.numeric);
    append(labels, m.labels);
  }
  return records;
}

// One way to train a model, with its process.
struct Side {
  std::string name;  // "embers", "torch", "torch_fused"
  int threads;
  BenchChild process;
  bool is_hopeless = false;
  std::vector<double> seconds = {};             // of epochs
  double first_loss = 0, test_loss = INFINITY;  // the least after an epoch

  void train() {
    const Json epoch = Json::parse(process.ask("epoch"));
    seconds.push_back(epoch["seconds"]);
    test_loss = std::min(test_loss, epoch["test_loss"].get<double>());
  }
};

struct Measured {
  std::vector<double> rate;  // examples a second, by round
  double test_loss = INFINITY;
};

Measured of_cpp(const std::string& file, const std::string& dir, int rounds) {
  Measured cpp;
  for (int i = 0; i < rounds; ++i) {
    const Json report = run_as_processes(file, dir);
    std::vector<double> rates;
    for (const Json& epoch : report["epochs"]) {
      rates.push_back(epoch["examples"].get<double>() / epoch["seconds"].get<double>());
      cpp.test_loss = std::min(cpp.test_loss, epoch["test_loss"].get<double>());
    }
    rates.erase(rates.begin());
    cpp.rate.push_back(median_of(rates));
  }
  return cpp;
}

class Comparison {
 public:
  Comparison(std::string model, const std::string& dir, uint64_t records)
      : model_(std::move(model)), dir_(dir), records_(static_cast<double>(records)) {
    const std::string file = dir + "/open.toml";
    std::ofstream(file) << "[job]\nname = \"bench\"\n";
    for (const int threads : {1, 2}) {
      jobs_.push_back(std::make_unique<OpenJob>(file, dir));
      add("embers", threads, jobs_.back()->address());
      add("torch", threads, "");
      add("torch_fused", threads, "");
    }
    for (Side& side : sides_) side.train();  // rows come into being
    for (Side& side : sides_) side.seconds.clear();
  }

  void round() {
    for (Side& side : sides_)
      if (!side.is_hopeless) side.train();
    for (const char* const way : {"embers", "torch"}) {
      const double best = *best_of(way).seconds.rbegin();
      for (Side& side : sides_)
        if (side.name.starts_with(way)) side.is_hopeless |= side.seconds.back() > kHopeless * best;
    }
  }

  // The fastest one of the two ways, by its median.
  Side& best_of(const std::string& way) {
    Side* best = nullptr;
    for (Side& side : sides_)
      if (side.name.starts_with(way) && !side.is_hopeless &&
          (best == nullptr || median_of(side.seconds) < median_of(best->seconds)))
        best = &side;
    return *best;
  }

  double rate(double seconds) const { return records_ / seconds; }

  // Trains anew as many epochs as the others have, pulling rows when all gradients before are applied.
  double test_loss_at_once(size_t epochs) {
    const std::string file = dir_ + "/open.toml";
    const OpenJob job(file, dir_);
    Side side{"embers_at_once", 1,
              run_python(dir_, "click_models.py", {"embers_at_once", model_, "1", dir_}, 1, job.address())};
    for (size_t e = 0; e < epochs; ++e) side.train();
    return side.test_loss;
  }

  Json json() {
    Json json;
    for (const Side& side : sides_)
      json.push_back({{"side", side.name},
                      {"threads", side.threads},
                      {"seconds", with_range(side.seconds)},
                      {"examples_per_second", rate(median_of(side.seconds))},
                      {"given_up", side.is_hopeless},
                      {"test_loss", side.test_loss}});
    return json;
  }

 private:
  void add(const std::string& name, int threads, const std::string& master) {
    sides_.push_back({name, threads,
                      run_python(dir_, "click_models.py", {name, model_, std::to_string(threads), dir_},
                                 threads, master)});
  }

  const std::string model_, dir_;
  const double records_;
  std::vector<std::unique_ptr<OpenJob>> jobs_;
  std::vector<Side> sides_;
};

void check_loss(const std::string& model, const std::string& what, double loss, double torch,
                double farthest) {
  if (!(std::abs(loss - torch) <= farthest))
    fail(ErrorCode::kInternal, "{}: the test loss is {} {}, but {} with torch", model, loss, what, torch);
}

Json measure(const std::string& model, const std::string& dir, uint64_t records, int rounds,
             const std::string& cpp_job, const Farthest& farthest, Json& targets) {
  Comparison sides(model, dir, records);
  Measured cpp;
  std::vector<double> rates[2];
  for (int round = 0; round < rounds; ++round) {
    sides.round();
    if (cpp_job.empty()) continue;
    const Measured one = of_cpp(cpp_job, dir, 1);
    cpp.rate.push_back(one.rate[0]);
    cpp.test_loss = std::min(cpp.test_loss, one.test_loss);
  }
  const Side &embers = sides.best_of("embers"), &torch = sides.best_of("torch");
  std::vector<double> vs_torch, vs_cpp;
  for (int round = 0; round < rounds; ++round) {
    const auto i = static_cast<size_t>(round);
    vs_torch.push_back(torch.seconds[i] / embers.seconds[i]);
    if (!cpp_job.empty()) vs_cpp.push_back(sides.rate(embers.seconds[i]) / cpp.rate[i]);
  }
  const double at_once = sides.test_loss_at_once(2);
  check_loss(model, "with embers", embers.test_loss, torch.test_loss, farthest.ahead);
  check_loss(model, "with embers, nothing pulled ahead,", at_once, torch.test_loss, farthest.at_once);
  Json json{{"model", model},
            {"sides", sides.json()},
            {"at_once_test_loss", at_once},
            {"vs_torch", with_range(vs_torch)}};
  fmt::print("{:<7} embers {:7.0f} ({}), torch {:7.0f} ({}, {}) examples/s", model,
             sides.rate(median_of(embers.seconds)), embers.threads, sides.rate(median_of(torch.seconds)),
             torch.name, torch.threads);
  if (!cpp_job.empty()) {
    check_loss(model, "in C++", cpp.test_loss, torch.test_loss, farthest.ahead);
    json["cpp"] = {{"examples_per_second", with_range(cpp.rate)}, {"test_loss", cpp.test_loss}};
    json["vs_cpp"] = with_range(vs_cpp);
    fmt::print(", C++ {:7.0f}", median_of(cpp.rate));
  }
  fmt::print("   test loss {:.3f} {:.3f}, at once {:.3f}\n", embers.test_loss, torch.test_loss, at_once);
  std::fflush(stdout);
  targets.push_back(target(fmt::format("python.{}_vs_torch", model), median_of(vs_torch), 1.3));
  if (!cpp_job.empty())
    targets.push_back(target(fmt::format("python.{}_vs_cpp", model), median_of(vs_cpp), 0.85));
  return json;
}

}  // namespace

void measure_training(const BenchOptions& options, const std::string& dir, Json& report) {
  const uint64_t rows = options.quick ? 20'000 : 110'000;
  const int rounds = options.quick ? 2 : 5;
  const Farthest farthest = options.quick ? Farthest{0.1, 0.1} : Farthest{0.03, 0.015};
  data::write_criteo(rows, 7, dir);
  const std::string text = criteo_job({"dlrm", ""}, dir, 3, 1), file = dir + "/job.toml";
  std::ofstream(file) << text;
  const job::Job job = job::parse_job({file, text, {}});
  const uint64_t records = write_arrays(job, data::Split::kTrain, dir + "/train");
  write_arrays(job, data::Split::kTest, dir + "/test");
  for (const char* const model : {"dlrm", "deepfm"})
    report["training"].push_back(measure(
        model, dir, records, rounds, std::string(model) == "dlrm" ? file : "", farthest, report["targets"]));
}

}  // namespace embers
