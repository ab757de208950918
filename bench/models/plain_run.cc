#include "bench/models/plain_run.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <span>

#include "bench/harness/bench.h"
#include "bench/harness/processes.h"
#include "model/step.h"

namespace embers {
namespace {

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

TrainingRun run_plain(const job::Job& job, const std::shared_ptr<const data::Dataset>& train,
                      const std::shared_ptr<const data::Dataset>& test, uint32_t threads,
                      const PlainModel::Options& options) {
  set_threads(threads);
  const auto model = PlainModel::make(job, options);
  TrainingRun run;
  run.course.push_back({0, mean_loss(*model, test)});
  double cpu = 0;
  for (uint64_t e = 1; e <= job.training.epochs; ++e) {
    PlainModel::Times times;
    double examples = 0, wait = 0;
    const double cpu_before = cpu_seconds_of_this_process();
    const auto begin = BenchClock::now();
    for (ReadAhead minibatches(train, true, e); minibatches.more();) {
      const auto asked = BenchClock::now();
      const data::Minibatch m = minibatches.next();
      wait += seconds_since(asked);
      model->train(m, times);
      examples += static_cast<double>(m.examples);
    }
    const double all = seconds_since(begin), seconds = all / examples;
    run.course.push_back({run.course.back().seconds + all, mean_loss(*model, test)});
    if (e == 1) continue;
    run.examples += examples;
    cpu += cpu_seconds_of_this_process() - cpu_before;
    run.epochs.push_back({seconds, times.dense / examples, times.embedding() / examples,
                          nlohmann::json{{"wait", wait / examples},
                                         {"lookup", times.lookup / examples},
                                         {"dense", times.dense / examples},
                                         {"gradient", times.gradient / examples},
                                         {"sparse_adam", times.sparse_adam / examples},
                                         {"dense_adam", times.dense_adam / examples}}});
  }
  run.cpu_seconds = cpu / run.examples;
  return run;
}

}  // namespace embers
