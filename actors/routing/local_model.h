#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/floats/float_buffer.h"
#include "schema/table_spec.h"
#include "storage/update_rules/update_rule.h"

namespace embers {

// A worker's own copy of the dense parameters: the gradient of each minibatch, which is pushed as always,
// also changes the copy, by the job's optimizer. Its slots and step count are the copy's own, and a pull
// leaves them alone. What it is for: docs/update-modes.md, "Own steps" and "Local steps". Not thread safe.
class LocalModel {
 public:
  // `table`: the spec of kDenseTable. Errors are storage::UpdateRule::make's.
  explicit LocalModel(const TableSpec& table);

  bool empty() const { return values_.empty(); }  // nothing was pulled yet
  // Takes what was pulled, [chunks x kDenseChunk]; always the same number of chunks.
  void replace(std::span<const float> values);
  // One step of the optimizer with grads[chunks x kDenseChunk], at the learning rate of the model's step
  // `model_step`. Returns by how much it has changed each value. A chunk stays as it is if its gradient is
  // infinite or NaN, or would make the chunk so: its owner leaves that gradient out, too, or ends the job.
  std::vector<float> update(std::span<const float> grads, uint64_t model_step);
  FloatBuffer values() const;

 private:
  std::unique_ptr<const storage::UpdateRule> optimizer_;
  std::vector<float> slot_init_;  // of a chunk
  std::vector<float> values_;
  std::vector<float> slots_;  // chunk by chunk
  uint64_t step_ = 0;
};

}  // namespace embers
