#include "bench/models/plain_run.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <span>

#include "base/tune_malloc.h"
#include "bench/harness/bench.h"
#include "bench/models/job.h"
#include "data/dataset.h"
#include "model/step.h"

namespace embers {
namespace {

using Json = nlohmann::json;

struct ReadMinibatch {
  data::Minibatch minibatch;
  PlainModel::Prepared prepared;
};

// Minibatches of an epoch in order, the next one read on a thread of its own, and prepared for `model` if
// there is one.
class ReadAhead {
 public:
  ReadAhead(const std::shared_ptr<const data::Dataset>& dataset, bool shuffle, uint64_t epoch,
            PlainModel* model)
      : minibatches_(dataset->minibatches()),
        epoch_(epoch),
        model_(model),
        reader_(data::MinibatchReader::make(dataset, shuffle)) {
    read();
  }
  bool more() const { return next_.valid(); }
  ReadMinibatch next() {
    ReadMinibatch read_before = next_.get();
    read();
    return read_before;
  }

 private:
  void read() {
    if (number_ == minibatches_) return;
    next_ = std::async(std::launch::async, [this, i = number_++] {
      ReadMinibatch next{reader_->read(epoch_, i), {}};
      if (model_ != nullptr) next.prepared = model_->prepare(next.minibatch);
      return next;
    });
  }
  const uint64_t minibatches_, epoch_;
  PlainModel* const model_;
  const std::unique_ptr<data::MinibatchReader> reader_;
  uint64_t number_ = 0;
  std::future<ReadMinibatch> next_;
};

double mean_loss(PlainModel& model, const std::shared_ptr<const data::Dataset>& test) {
  double loss = 0, examples = 0;
  for (ReadAhead minibatches(test, false, 0, nullptr); minibatches.more();) {
    const data::Minibatch m = minibatches.next().minibatch;
    loss += model.evaluate(m) * static_cast<double>(m.examples);
    examples += static_cast<double>(m.examples);
  }
  return loss / examples;
}

TrainingRun train(const job::Job& job, const PlainWay& way) {
  const auto train = data::Dataset::open(job, data::Split::kTrain, ""),
             test = data::Dataset::open(job, data::Split::kTest, "");
  set_threads(way.threads);
  const auto model = PlainModel::make(job, way.options);
  TrainingRun run;
  run.course.push_back({0, mean_loss(*model, test)});
  double cpu = 0;
  for (uint64_t e = 1; e <= job.training.epochs; ++e) {
    PlainModel::Times times;
    double examples = 0, wait = 0;
    const double cpu_before = cpu_seconds_of_this_process();
    const auto begin = BenchClock::now();
    for (ReadAhead minibatches(train, true, e, model.get()); minibatches.more();) {
      const auto asked = BenchClock::now();
      const ReadMinibatch next = minibatches.next();
      wait += seconds_since(asked);
      model->train(next.minibatch, times, next.prepared);
      examples += static_cast<double>(next.minibatch.examples);
    }
    const double all = seconds_since(begin), seconds = all / examples;
    run.course.push_back({run.course.back().seconds + all, mean_loss(*model, test)});
    if (e == 1) continue;
    run.examples += examples;
    cpu += cpu_seconds_of_this_process() - cpu_before;
    run.epochs.push_back({seconds, times.dense / examples, times.embedding() / examples,
                          Json{{"wait", wait / examples},
                               {"lookup", times.lookup / examples},
                               {"dense", times.dense / examples},
                               {"gradient", times.gradient / examples},
                               {"sparse_adam", times.sparse_adam / examples},
                               {"dense_adam", times.dense_adam / examples}}});
  }
  run.cpu_seconds = cpu / run.examples;
  return run;
}

// Numbers that are no numbers are null in JSON.
double number_in(const Json& value) { return value.is_null() ? NAN : value.get<double>(); }

Json json_of(const TrainingRun& run) {
  Json json{{"examples", run.examples}, {"cpu_seconds", run.cpu_seconds}};
  for (const Epoch& e : run.epochs)
    json["epochs"].push_back(
        {{"seconds", e.seconds}, {"dense", e.dense}, {"embedding", e.embedding}, {"parts", e.parts}});
  for (const LossAt& at : run.course) json["course"].push_back({at.seconds, at.loss});
  return json;
}

TrainingRun run_of(const Json& json) {
  TrainingRun run;
  run.examples = json["examples"];
  run.cpu_seconds = json["cpu_seconds"];
  for (const Json& e : json["epochs"])
    run.epochs.push_back({e["seconds"], e["dense"], e["embedding"], e["parts"]});
  for (const Json& at : json["course"]) run.course.push_back({at[0], number_in(at[1])});
  return run;
}

BenchChild start_plain(bool mimalloc) {
  return mimalloc ? BenchChild::part_with_mimalloc({"plain-train"}) : BenchChild::part({"plain-train"});
}

}  // namespace

Epoch TrainingRun::median() const {
  std::vector<Epoch> sorted = epochs;
  std::sort(sorted.begin(), sorted.end(),
            [](const Epoch& a, const Epoch& b) { return a.seconds < b.seconds; });
  return sorted.at(sorted.size() / 2);
}

double TrainingRun::test_loss() const {
  double least = INFINITY;
  for (const LossAt& at : std::span(course).subspan(1)) least = std::min(least, at.loss);
  return least;
}

PlainProcess::PlainProcess(bool mimalloc) : child_(start_plain(mimalloc)) {}

TrainingRun PlainProcess::run(const std::string& job_file, const PlainWay& way) {
  const Json question{{"file", job_file},
                      {"threads", way.threads},
                      {"stacked", way.options.stacked},
                      {"late", way.options.late},
                      {"batch", way.policy == Policy::kBatch}};
  return run_of(Json::parse(child_.ask(question.dump())));
}

void serve_plain_runs() {
  ask_for_huge_pages();
  answer_lines("", [](const std::string& line) {
    const Json question = Json::parse(line);
    const std::string file = question["file"];
    const job::Job job = job::parse_job({file, contents(file), {}});
    const PlainWay way{question["threads"],
                       {question["stacked"], question["late"]},
                       question["batch"] ? Policy::kBatch : Policy::kOther};
    set_policy_of_this_process(way.policy);
    return json_of(train(job, way)).dump();
  });
}

}  // namespace embers
