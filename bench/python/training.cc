// DLRM and DeepFM with the zoo's default layers, dim 16, batch 2048, Adam, on generated Criteo data, ids
// hashed to 100 000 a column: click_models.py with rows of embers (master, shard and worker are processes of
// their own), and the same script with torch's EmbeddingBag(sparse=True) and SparseAdam, with a table for each
// column or one for all columns, the latter also with Adam on the minibatch's rows, gathered. DLRM is also trained by embers' C++
// worker (bench train's job), which reads the same records from a text file, on a thread of its own.
//
// All sides train epoch by epoch in turns, with one thread and with two, under both scheduling policies, and
// torch in all its ways; after two epochs of each, the fastest configuration of each side goes on. Epochs
// after the first count, when every row is there. embers pulls a minibatch's rows before the gradients of the
// one before are applied. A run without that, not timed, must reach the loss of the torch script, and all
// sides must come near it.
//
//   python.<model>_vs_torch        examples a second with embers over those with torch
//   python.dlrm_vs_cpp             over those of the C++ worker
#include <cmath>
#include <fstream>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/harness/processes.h"
#include "bench/models/job.h"
#include "bench/python/peers.h"
#include "bench/python/python.h"
#include "data/dataset.h"
#include "data/synth.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kTries = 2;  // of each configuration, before the fastest ones go on

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

// A script that trains, with its process.
struct Script {
  BenchChild process;
  double test_loss = INFINITY;  // the least after an epoch

  double train() {  // seconds of an epoch
    const Json epoch = Json::parse(process.ask("epoch"));
    test_loss = std::min(test_loss, epoch["test_loss"].get<double>());
    return epoch["seconds"];
  }
};

// The sides of one model. Costs are seconds of an example.
class Comparison {
 public:
  Comparison(std::string model, const std::string& dir, uint64_t records)
      : model_(std::move(model)), dir_(dir), records_(static_cast<double>(records)) {
    const std::string file = dir + "/open.toml";
    std::ofstream(file) << "[job]\nname = \"bench\"\n";
    for (const int threads : {1, 2}) {
      jobs_.push_back(std::make_unique<OpenJob>(file, dir));
      add("embers", "embers", threads, jobs_.back()->address());
      for (const char* const way : {"torch", "torch_fused", "torch_gathered"}) add("torch", way, threads, "");
    }
  }

  // The job in C++, which the file describes.
  void add_cpp(const std::string& file) {
    contest_.add("cpp", "", [this, file] {
      const Json report = run_as_processes(file, dir_);
      std::vector<double> seconds;
      for (const Json& epoch : report["epochs"]) {
        seconds.push_back(epoch["seconds"].get<double>() / epoch["examples"].get<double>());
        cpp_loss_ = std::min(cpp_loss_, epoch["test_loss"].get<double>());
      }
      seconds.erase(seconds.begin());
      return Cost{median(seconds)};
    });
  }

  const Contest& measure(size_t rounds) {
    contest_.warm_up();  // rows come into being
    contest_.choose(kTries);
    contest_.measure(rounds);
    return contest_;
  }

  double test_loss(const std::string& side) const {
    return side == "cpp" ? cpp_loss_ : chosen(side).test_loss;
  }

  // Trains anew as many epochs as the others have, pulling rows when all gradients before are applied.
  double test_loss_at_once(size_t epochs) {
    const std::string file = dir_ + "/open.toml";
    const OpenJob job(file, dir_);
    Script script{
        run_python(dir_, "click_models.py", {"embers_at_once", model_, "1", dir_}, 1, job.address())};
    for (size_t e = 0; e < epochs; ++e) script.train();
    return script.test_loss;
  }

 private:
  void add(const std::string& side, const std::string& way, int threads, const std::string& master) {
    const std::string name = fmt::format("{}, {} threads", way, threads);
    scripts_.emplace_back(side + name, std::make_unique<Script>(run_python(
                                           dir_, "click_models.py",
                                           {way, model_, std::to_string(threads), dir_}, threads, master)));
    Script* const script = scripts_.back().second.get();
    add_with_policies(
        contest_, side, name, [=](Policy policy) { set_policy(script->process.processes(), policy); },
        [=, this] { return Cost{script->train() / records_}; });
  }

  const Script& chosen(const std::string& side) const {
    for (const auto& [name, script] : scripts_)
      if ((side + contest_.configuration(side)).starts_with(name)) return *script;
    fail(ErrorCode::kInternal, "the benchmark has no script for {}", side);
  }

  const std::string model_, dir_;
  const double records_;
  std::vector<std::unique_ptr<OpenJob>> jobs_;
  std::vector<std::pair<std::string, std::unique_ptr<Script>>> scripts_;  // by side and configuration
  double cpp_loss_ = INFINITY;
  Contest contest_;
};

void check_loss(const std::string& model, const std::string& what, double loss, double torch,
                double farthest) {
  if (!(std::abs(loss - torch) <= farthest))
    fail(ErrorCode::kInternal, "{}: the test loss is {} {}, but {} with torch", model, loss, what, torch);
}

Json to_json(const Estimate& e) { return {{"median", e.value}, {"low", e.low}, {"high", e.high}}; }

Json measure(const std::string& model, const std::string& dir, uint64_t records, int rounds,
             const std::string& cpp_job, const Farthest& farthest, Json& targets) {
  Comparison sides(model, dir, records);
  if (!cpp_job.empty()) sides.add_cpp(cpp_job);
  const Contest& contest = sides.measure(rounds);
  const double embers = sides.test_loss("embers"), torch = sides.test_loss("torch");
  const double at_once = sides.test_loss_at_once(4);
  check_loss(model, "with embers", embers, torch, farthest.ahead);
  check_loss(model, "with embers, nothing pulled ahead,", at_once, torch, farthest.at_once);
  const Estimate vs_torch = contest.speed("embers", "torch");
  Json json{{"model", model},           {"sides", contest.json()},      {"embers_test_loss", embers},
            {"torch_test_loss", torch}, {"at_once_test_loss", at_once}, {"vs_torch", to_json(vs_torch)}};
  targets.push_back(target(fmt::format("python.{}_vs_torch", model), vs_torch, 1.3));
  fmt::print("{:<7} embers {:7.0f} ({}), torch {:7.0f} ({}) examples/s", model,
             1 / contest.seconds("embers").value, contest.configuration("embers"),
             1 / contest.seconds("torch").value, contest.configuration("torch"));
  if (!cpp_job.empty()) {
    const double cpp = sides.test_loss("cpp");
    check_loss(model, "in C++", cpp, torch, farthest.ahead);
    const Estimate vs_cpp = contest.speed("embers", "cpp");
    json["cpp"] = {{"test_loss", cpp}};
    json["vs_cpp"] = to_json(vs_cpp);
    targets.push_back(target(fmt::format("python.{}_vs_cpp", model), vs_cpp, 0.85));
    fmt::print(", C++ {:7.0f}", 1 / contest.seconds("cpp").value);
  }
  fmt::print("   test loss {:.3f} {:.3f}, at once {:.3f}\n", embers, torch, at_once);
  std::fflush(stdout);
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
