#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schema/table_spec.h"

namespace embers::storage {

// Constraints that a row fulfils after each apply that touched it: tf.keras.constraints max_norm, non_neg,
// unit_norm and min_max_norm, with Keras' formulas, names and defaults. A norm is that of one row (Keras'
// axis is 1 here: a lazy table has no columns to take norms of). And one that holds before each apply:
// "renorm", the max_norm of torch.nn.Embedding, whose look-ups scale rows down to a norm that they may exceed
// afterwards.
class Constraint {
 public:
  // nullptr for a spec without a name. kInvalid for an unknown name or parameter (nearest suggested), or a
  // value out of range.
  static std::unique_ptr<const Constraint> make(const ConstraintSpec& spec);
  virtual ~Constraint() = default;
  virtual bool needs_whole_rows() const { return true; }  // it depends on more than one element
  virtual void before(std::span<float> /*row*/) const {}  // it is changed
  virtual void apply(std::span<float> /*row*/) const {}   // after it was changed
};

const std::vector<std::string>& constraint_names();

}  // namespace embers::storage
