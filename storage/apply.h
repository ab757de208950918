#pragma once

#include <span>

#include "storage/constraint.h"
#include "storage/optimizer.h"
#include "storage/store.h"

namespace embers::storage {

// Stage "apply": changes the rows of `keys` with their gradients, grads[keys.size() x dim], by one step of
// the optimizer whose slots the table was added with, then makes each fulfil the constraint, if any. Errors
// are Store::update's; then nothing was changed.
void apply(Store& store, TableId table, const Optimizer& optimizer, Optimizer::Step step, KeysView keys,
           std::span<const float> grads, const Constraint* constraint = nullptr);

}  // namespace embers::storage
