#pragma once

#include <span>

#include "storage/rows/constraint.h"
#include "storage/rows/store.h"
#include "storage/update_rules/update_rule.h"

namespace embers::storage {

// What an apply did not do.
struct LeftOut {
  size_t rows = 0;   // left as they were, since the step would have made them infinite or NaN
  size_t first = 0;  // index of the first of their keys; meaningless if there are none
};

// Stage "apply": changes the rows of `keys` with their gradients, grads[keys.size() x dim], by one step of
// the rule whose slots the table was added with, then makes each row fulfil the constraint, if any. A finite
// row that would no longer be finite is left as it was, slots included. Errors are those of Store::update;
// then nothing was changed.
LeftOut apply(Store& store, TableId table, const UpdateRule& rule, UpdateRule::Step step, KeysView keys,
              std::span<const float> grads, const Constraint* constraint = nullptr);

}  // namespace embers::storage
