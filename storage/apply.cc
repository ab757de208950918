#include "storage/apply.h"

#include "storage/copy_floats.h"
#include "storage/finite.h"

namespace embers::storage {
namespace {

// Calls change(row, slots) and takes back what it did to both if they are not finite afterwards but were
// before. Returns whether it did so.
template <class Change>
bool keep_finite(std::span<float> row, std::span<float> slots, std::vector<float>& before,
                 const Change& change) {
  // Where slots lie behind their row, as in memory stores, both are one piece.
  const bool one_piece = row.data() + row.size() == slots.data();
  const std::span<float> first = one_piece ? std::span(row.data(), row.size() + slots.size()) : row;
  const std::span<float> second = one_piece ? std::span<float>() : slots;
  before.resize(row.size() + slots.size());
  copy_floats(before.data(), first.data(), first.size());
  copy_floats(before.data() + first.size(), second.data(), second.size());
  change(row, slots);
  if (all_finite(first) && (second.empty() || all_finite(second))) [[likely]]
    return false;
  if (!all_finite(before)) return false;
  copy_floats(first.data(), before.data(), first.size());
  copy_floats(second.data(), before.data() + first.size(), second.size());
  return true;
}

}  // namespace

LeftOut apply(Store& store, TableId table, const Optimizer& optimizer, Optimizer::Step step, KeysView keys,
              std::span<const float> grads, const Constraint* constraint) {
  const UpdateKernel kernel = optimizer.kernel(step);
  LeftOut left_out;
  size_t next = 0;
  std::vector<float> scratch;
  store.update(
      table, keys, grads,
      [&](std::span<float> row, std::span<float> slots, std::span<const float> grad) {
        const size_t key = next++;
        const bool taken_back = keep_finite(row, slots, scratch, [&](auto row, auto slots) {
          kernel(row, slots, grad);
          if (constraint != nullptr) constraint->apply(row);
        });
        if (taken_back && left_out.rows++ == 0) left_out.first = key;
      },
      step.step);
  return left_out;
}

}  // namespace embers::storage
