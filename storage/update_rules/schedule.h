#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schema/table_spec.h"

namespace embers::storage {

// The learning rate as a function of the model's step: tf.keras.optimizers.schedules, with Keras's formulas,
// names of parameters and defaults. A name is Keras's class, however it is spelled (ExponentialDecay,
// exponential_decay), or its first word; names below.
//   constant         always initial_learning_rate
//   exponential      ExponentialDecay: decay_steps, decay_rate, staircase (false)
//   inverse_time     InverseTimeDecay: decay_steps, decay_rate, staircase (false)
//   polynomial       PolynomialDecay: decay_steps, end_learning_rate (0.0001), power (1), cycle (false)
//   cosine           CosineDecay: decay_steps, alpha (0)
//   cosine_restarts  CosineDecayRestarts: first_decay_steps, t_mul (2), m_mul (1), alpha (0)
//   piecewise        PiecewiseConstantDecay: boundaries, values
//   warmup           constant after a warm-up
// Those with an initial_learning_rate may have CosineDecay's warm-up before them: over warmup_steps, the rate
// goes linearly from initial_learning_rate to warmup_target, where the schedule then starts.
class Schedule {
 public:
  // `learning_rate`: what initial_learning_rate is when the spec gives none. kInvalid for an unknown name or
  // parameter (nearest suggested), one that is missing, or a value out of range.
  static Schedule make(const ScheduleSpec& spec, std::optional<double> learning_rate);
  // At a step counted from 0, as Keras counts iterations. At least 0.
  double at(uint64_t step) const { return at_(static_cast<double>(step)); }

 private:
  using Formula = std::function<double(double step)>;
  explicit Schedule(Formula at) : at_(std::move(at)) {}
  Formula at_;
};

const std::vector<std::string>& schedule_names();

}  // namespace embers::storage
