#include "storage/apply.h"

#include "storage/copy_floats.h"
#include "storage/finite.h"

namespace embers::storage {
namespace {

// Takes back a step that made a row infinite or NaN, if it was finite before. Returns whether it did so.
bool take_back(std::span<float> row, std::span<float> slots, std::span<const float> before) {
  if (!all_finite(before)) return false;
  copy_floats(row.data(), before.data(), row.size());
  copy_floats(slots.data(), before.data() + row.size(), slots.size());
  return true;
}

}  // namespace

LeftOut apply(Store& store, TableId table, const Optimizer& optimizer, Optimizer::Step step, KeysView keys,
              std::span<const float> grads, const Constraint* constraint) {
  const GuardedKernel kernel = optimizer.guarded_kernel(step);
  LeftOut left_out;
  size_t next = 0;
  std::vector<float> before;
  store.update(
      table, keys, grads,
      [&](std::span<float> row, std::span<float> slots, std::span<const float> grad) {
        const size_t key = next++;
        before.resize(row.size() + slots.size());
        bool finite = kernel(row, slots, grad, before.data());
        if (constraint != nullptr) {
          constraint->apply(row);
          finite = all_finite(row) && all_finite(slots);
        }
        if (!finite && take_back(row, slots, before) && left_out.rows++ == 0) left_out.first = key;
      },
      step.step);
  return left_out;
}

}  // namespace embers::storage
