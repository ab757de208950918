// A process and whoever started it talk in lines, and in files that hold JSON:
//
//   part puller OPTIONS_FILE      joins the job when it is first told to run
//   run KEYS_FILE STEPS FIRST     takes steps; answered by SECONDS SENT RECEIVED LAST ROWS
#include "bench/partition/far_worker.h"

#include <fmt/format.h>

#include <deque>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "apps/plan/session_worker.h"
#include "apps/process/program.h"
#include "base/errors.h"
#include "bench/harness/child.h"

namespace embers {
namespace {

using Json = nlohmann::json;

Json to_json(const client::WorkerOptions& options) {
  Json tables;
  for (const client::TableSpec& t : options.tables)
    tables.push_back({{"name", t.name},
                      {"dim", t.dim},
                      {"initializer", t.initializer},
                      {"optimizer", t.optimizer},
                      {"partition", t.partition}});
  return {{"master", options.master},
          {"insecure", options.insecure},
          {"records", options.work->records},
          {"batch_size", options.work->batch_size},
          {"tables", tables}};
}

client::WorkerOptions options_of(const Json& json) {
  client::WorkerOptions options;
  options.master = json["master"];
  options.insecure = json["insecure"];
  options.work = client::Work{.records = json["records"], .batch_size = json["batch_size"]};
  for (const Json& t : json["tables"]) {
    client::TableSpec& table = options.tables.emplace_back();
    table.name = t["name"];
    table.dim = t["dim"];
    table.initializer = t["initializer"];
    table.optimizer = t["optimizer"];
    table.partition = t["partition"];
  }
  return options;
}

Json read_json(const std::string& file) {
  std::ifstream in(file);
  return Json::parse(in);
}

class FarWorker : public plan::Worker {
 public:
  FarWorker(std::string file, const std::vector<std::string>& words)
      : file_(std::move(file)), process_(words) {}

  void start(std::span<const plan::Minibatch> minibatches, size_t steps, uint64_t first) override {
    Json all;
    for (const plan::Minibatch& minibatch : minibatches) {
      Json parts;
      for (const plan::Part& part : minibatch)
        parts.push_back(
            {{"table", part.table}, {"keys", std::vector(part.keys.ints.begin(), part.keys.ints.end())}});
      all.push_back(parts);
    }
    const std::string keys = file_ + ".keys";
    std::ofstream(keys) << all;
    process_.tell(fmt::format("run {} {} {}", keys, steps, first));
  }

  plan::Step finish() override {
    plan::Step step;
    std::istringstream(process_.answer()) >> step.seconds >> step.sent >> step.received >> step.last >>
        step.rows;
    return step;
  }

 private:
  const std::string file_;
  BenchChild process_;
};

// Keys of minibatches as a file holds them.
class Minibatches {
 public:
  explicit Minibatches(const Json& json) {
    for (const Json& minibatch : json) {
      plan::Minibatch& parts = minibatches_.emplace_back();
      for (const Json& part : minibatch)
        parts.push_back({part["table"], keys_.emplace_back(part["keys"].get<std::vector<int64_t>>())});
    }
  }
  std::span<const plan::Minibatch> all() const { return minibatches_; }

 private:
  std::deque<Keys> keys_;
  std::vector<plan::Minibatch> minibatches_;
};

}  // namespace

std::unique_ptr<plan::Worker> start_far_worker(
    const std::string& folder, const std::string& name, const client::WorkerOptions& options,
    const std::function<std::vector<std::string>(const std::vector<std::string>& command)>& place) {
  const std::string file = folder + "/" + name;
  std::ofstream(file) << to_json(options);
  return std::make_unique<FarWorker>(file, place({program_beside("embers-bench"), "part", "puller", file}));
}

void serve_far_worker(const std::string& file) {
  std::optional<plan::SessionWorker> worker;
  answer_lines("to join", [&](const std::string& line) {
    if (!worker) worker.emplace(options_of(read_json(file)));
    std::istringstream words(line);
    std::string run, keys;
    size_t steps = 0;
    uint64_t first = 0;
    words >> run >> keys >> steps >> first;
    const Minibatches minibatches(read_json(keys));
    worker->start(minibatches.all(), steps, first);
    const plan::Step step = worker->finish();
    return fmt::format("{} {} {} {} {}", step.seconds, step.sent, step.received, step.last, step.rows);
  });
}

}  // namespace embers
