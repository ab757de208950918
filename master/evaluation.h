#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <span>
#include <vector>

namespace embers {

// Stands for what cannot be computed, as in a Report.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Area under the ROC curve of scores against labels (> 0.5 is positive), ties counted half, as
// sklearn.metrics.roc_auc_score. NaN unless both classes occur.
double auc(std::span<const float> scores, std::span<const float> labels);

// Share of examples whose score >= 0.5 agrees with the label. NaN without examples.
double accuracy(std::span<const float> scores, std::span<const float> labels);

// What workers evaluated of one minibatch.
struct EvaluatedMinibatch {
  std::vector<float> scores, labels;
  std::vector<uint64_t> records;
  double loss_sum = 0;
  uint64_t examples = 0;
};

// Scores of a whole evaluation, in minibatch order, whichever worker computed them; about 16 bytes per
// example.
class Evaluation {
 public:
  // Once per minibatch.
  void add(uint64_t minibatch, EvaluatedMinibatch result) {
    examples_ += result.examples;
    results_[minibatch] = std::move(result);
  }
  uint64_t examples() const { return examples_; }
  struct Metrics {
    double loss, auc, accuracy;  // NaN where the data have no labels
    uint64_t examples;
  };
  Metrics metrics() const;
  const std::map<uint64_t, EvaluatedMinibatch>& results() const { return results_; }

 private:
  std::map<uint64_t, EvaluatedMinibatch> results_;
  uint64_t examples_ = 0;
};

// Metrics of the most recent training minibatches, for progress.
class RecentWindow {
 public:
  void add(EvaluatedMinibatch result);
  double auc() const;
  double loss() const;  // mean over the window; NaN before the first

 private:
  static constexpr uint64_t kExamples = 20000;
  std::deque<EvaluatedMinibatch> window_;
  uint64_t examples_ = 0;
};

}  // namespace embers
