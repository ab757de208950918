#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/output_file.h"
#include "master/exact_auc.h"
#include "schema/messages/codec.h"

namespace embers {

// Stands for what cannot be computed, as in a Report.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Area under the ROC curve of a few scores, as ExactAuc gives it.
double auc(std::span<const float> scores, std::span<const float> labels);

// What a worker found for one minibatch: views into its message.
struct EvaluatedMinibatch {
  std::span<const float> scores, labels;  // no labels for data that have none
  std::span<const uint64_t> records;      // of evaluated minibatches: number of each example's record
  double loss_sum = 0;
  uint64_t examples = 0;
};

// kBadFrame when the lists do not fit each other.
EvaluatedMinibatch read_evaluated(wire::DoneRequest::Reader request);

// The scores of an evaluation as CSV: record,score,label. See OutputFile for how it is written.
class PredictionFile {
 public:
  explicit PredictionFile(const std::string& path) : file_(path), text_("record,score,label\n") {}
  // In the order of the records. kDisk when the disk is full.
  void add(const EvaluatedMinibatch& minibatch);
  void finish();

 private:
  void write();

  OutputFile file_;
  std::string text_;  // not yet written
};

// Sums up an evaluation. Results come in any order and are counted in the order of their minibatches, so that
// the metrics are the same bits whichever worker was first. Those that came early are kept as they are.
// *Thread safety*: none.
class Evaluation {
 public:
  struct Metrics {
    double loss, auc, accuracy;  // NaN where the data have no labels
    uint64_t examples;
  };

  // `predictions`: the file for the score of each record, or "". `memory`: bytes for scores; see ExactAuc.
  explicit Evaluation(const std::string& predictions = "", size_t memory = ExactAuc::kMemory);

  // Once per minibatch. Errors are those of ExactAuc::add() and PredictionFile::add().
  void add(const Message<wire::DoneRequest>& result);
  // Minibatches [0, counted()) have been counted.
  uint64_t counted() const { return next_; }
  // The metrics of the minibatches that have been counted, which may take seconds. Completes the predictions.
  Metrics finish();

 private:
  Metrics metrics();
  void count(const EvaluatedMinibatch& result);

  std::map<uint64_t, Message<wire::DoneRequest>> early_;  // by minibatch
  uint64_t next_ = 0;
  ExactAuc auc_;
  double loss_sum_ = 0;
  uint64_t examples_ = 0, scores_ = 0, labels_ = 0;
  uint64_t right_ = 0;  // scores on the right side of a half
  std::unique_ptr<PredictionFile> predictions_;
};

// Metrics of the most recent training minibatches, for progress.
class RecentWindow {
 public:
  void add(const EvaluatedMinibatch& result);
  double auc() const;   // of at most kExamples examples
  double loss() const;  // mean over the window; NaN before the first

 private:
  static constexpr uint64_t kExamples = 20000;
  struct Minibatch {
    std::vector<float> scores, labels;  // of its first kExamples examples
    double loss_sum;
    uint64_t examples;
  };
  std::deque<Minibatch> window_;
  uint64_t examples_ = 0;
};

}  // namespace embers
