#include "storage/apply.h"

#include <cstring>

#include "storage/finite.h"

namespace embers::storage {
namespace {

void copy_floats(float* to, std::span<const float> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
}

}  // namespace

LeftOut apply(Store& store, TableId table, const Optimizer& optimizer, Optimizer::Step step, KeysView keys,
              std::span<const float> grads, const Constraint* constraint) {
  const UpdateKernel kernel = optimizer.kernel(step);
  LeftOut left_out;
  size_t next = 0;
  std::vector<float> before;  // the row and its slots
  store.update(table, keys, grads,
               [&](std::span<float> row, std::span<float> slots, std::span<const float> grad) {
                 before.resize(row.size() + slots.size());
                 copy_floats(before.data(), row);
                 copy_floats(before.data() + row.size(), slots);
                 kernel(row, slots, grad);
                 if (constraint != nullptr) constraint->apply(row);
                 const size_t key = next++;
                 if (all_finite(row) && all_finite(slots)) [[likely]]
                   return;
                 const std::span<const float> old(before);
                 if (!all_finite(old)) return;
                 copy_floats(row.data(), old.first(row.size()));
                 copy_floats(slots.data(), old.subspan(row.size()));
                 if (left_out.rows++ == 0) left_out.first = key;
               });
  return left_out;
}

}  // namespace embers::storage
