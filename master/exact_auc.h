#pragma once

#include <cstdint>
#include <span>

#include "master/sorted_runs.h"

namespace embers {

// Area under the ROC curve of any number of scores against labels (> 0.5 is positive), ties counted half, as
// sklearn.metrics.roc_auc_score. It is the quotient of two integers that are counted exactly, so the order in
// which scores come does not matter. Scores take 4 bytes each; those beyond `memory` bytes go to unnamed
// temporary files.
//
// *Thread safety*: none.
class ExactAuc {
 public:
  static constexpr size_t kMemory = size_t{256} << 20;  // 64 million scores

  explicit ExactAuc(size_t memory = kMemory);

  // Errors are those of SortedRuns::spill().
  void add(std::span<const float> scores, std::span<const float> labels);
  // NaN unless both classes occurred, each score had a label, and no score was NaN.
  double value();

  size_t memory() const { return positives_.memory() + negatives_.memory(); }
  uint64_t file_bytes() const { return positives_.file_bytes() + negatives_.file_bytes(); }

 private:
  void make_room();

  const size_t memory_;
  SortedRuns positives_, negatives_;  // scores, as integers in the same order
  bool exists_ = true;                // false: the value is NaN, whatever comes
};

}  // namespace embers
