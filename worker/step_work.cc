#include "worker/step_work.h"

namespace embers {

void StepWork::show_lookups() {
  origin.examples = static_cast<uint32_t>(minibatch.examples);
  report.examples = minibatch.examples;
  report.skipped = minibatch.skipped;
  report.labels = minibatch.labels;
  report.records = minibatch.records;
  keys.clear();
  for (const Lookups::Table& table : lookups.tables) keys.push_back({table.table, table.unique});
}

void StepWork::show_result() {
  report.loss_sum = result.loss_sum;
  report.scores = result.scores;
  gradients.clear();
  for (const IndexedSlices& slices : result.gradients)
    gradients.push_back({slices.table, slices.keys, slices.values.span()});
  dense = result.dense.span();
  buffers = result.buffers.span();
  times[StageTimes::kDense] = result.dense_seconds;
  times[StageTimes::kCombine] = result.combine_seconds;
}

}  // namespace embers
