#include "storage/apply.h"

#include "base/floats/copy_floats.h"
#include "base/floats/finite.h"
#include "base/floats/flush_denormals.h"

namespace embers::storage {
namespace {

// Undoes a step that made a row infinite or NaN, if it was finite before. Returns whether it did so.
bool take_back(std::span<float> row, std::span<float> slots, std::span<const float> before) {
  if (!all_finite(before)) return false;
  copy_floats(row.data(), before.data(), row.size());
  copy_floats(slots.data(), before.data() + row.size(), slots.size());
  return true;
}

}  // namespace

LeftOut apply(Store& store, TableId table, const UpdateRule& rule, UpdateRule::Step step, KeysView keys,
              std::span<const float> grads, const Constraint* constraint) {
  const GuardedKernel kernel = rule.guarded_kernel(step);
  LeftOut left_out;
  size_t done = 0;  // keys of earlier calls
  std::vector<float> before;
  const FlushDenormals flush;
  store.update_rows(
      table, keys, grads,
      [&](const RowsToUpdate& rows) {
        before.resize(rows.dim + rows.slot_floats);
        const auto take_back_one = [&](size_t i) {
          if (take_back(rows.row(i), rows.slots(i), before) && left_out.rows++ == 0)
            left_out.first = done + i;
        };
        if (constraint == nullptr) {
          for (size_t i = 0; (i = kernel(rows, i, before.data())) < rows.size(); ++i) take_back_one(i);
        } else {
          for (size_t i = 0; i < rows.size(); ++i) {
            prefetch_ahead(rows, i);
            const RowsToUpdate one{rows.rows.subspan(i, 1), rows.dim, rows.slot_floats, rows.grad(i)};
            constraint->before(rows.row(i));
            copy_floats(before.data(), rows.rows[i], before.size());
            kernel(one, 0, before.data());
            constraint->apply(rows.row(i));
            if (!all_finite(rows.row(i)) || !all_finite(rows.slots(i))) take_back_one(i);
          }
        }
        done += rows.size();
      },
      step.step);
  return left_out;
}

}  // namespace embers::storage
