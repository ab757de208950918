#pragma once

#include <chrono>
#include <deque>
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
  using Clock = std::chrono::steady_clock;

  // `table`: the spec of kDenseTable. `carries`: updates are kept for carry_over(). Errors are
  // storage::UpdateRule::make's.
  explicit LocalModel(const TableSpec& table, bool carries = false);

  bool empty() const { return values_.empty(); }  // nothing was pulled yet
  // Adds the changes of updates after `pulled` to parameters that had been pulled by then, and so before
  // their gradients were pushed. Each call speaks of a later pull than the one before.
  void carry_over(Clock::time_point pulled, std::span<float> values);
  // Takes what was pulled, [chunks x kDenseChunk]; always the same number of chunks.
  void replace(std::span<const float> values);
  // One step of the optimizer with grads[chunks x kDenseChunk], at the learning rate of the model's step
  // `model_step`. A chunk stays as it is if its gradient is infinite or NaN, or would make the chunk so: its
  // owner leaves that gradient out, too, or ends the job. `at`: before these gradients are pushed.
  void update(std::span<const float> grads, uint64_t model_step, Clock::time_point at = Clock::now());
  FloatBuffer values() const;

 private:
  struct Update {
    Clock::time_point at;
    std::vector<float> change;  // of all values
  };

  std::unique_ptr<const storage::UpdateRule> optimizer_;
  const bool carries_;
  std::vector<float> slot_init_;  // of a chunk
  std::vector<float> values_;
  std::vector<float> slots_;  // chunk by chunk
  uint64_t step_ = 0;
  std::deque<Update> updates_;  // that the last pull did not have
};

}  // namespace embers
