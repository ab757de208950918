#include "storage/apply.h"

namespace embers::storage {

void apply(Store& store, TableId table, const Optimizer& optimizer, Optimizer::Step step, KeysView keys,
           std::span<const float> grads, const Constraint* constraint) {
  const UpdateKernel kernel = optimizer.kernel(step);
  if (constraint == nullptr) return store.update(table, keys, grads, kernel);
  store.update(table, keys, grads,
               [&](std::span<float> row, std::span<float> slots, std::span<const float> grad) {
                 kernel(row, slots, grad);
                 constraint->apply(row);
               });
}

}  // namespace embers::storage
