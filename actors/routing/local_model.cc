#include "actors/routing/local_model.h"

#include <algorithm>
#include <functional>

#include "base/errors.h"
#include "base/floats/finite.h"
#include "base/floats/flush_denormals.h"

namespace embers {

LocalModel::LocalModel(const TableSpec& table)
    : optimizer_(storage::UpdateRule::make(table.update_rule)),
      slot_init_(storage::slot_init(*optimizer_, kDenseChunk)) {}

void LocalModel::replace(std::span<const float> values) {
  values_.assign(values.begin(), values.end());
  if (!slots_.empty()) return;
  for (size_t chunk = 0; chunk < values.size() / kDenseChunk; ++chunk)
    slots_.insert(slots_.end(), slot_init_.begin(), slot_init_.end());
}

std::vector<float> LocalModel::update(std::span<const float> grads, uint64_t model_step) {
  if (grads.size() != values_.size())
    fail(ErrorCode::kInternal, "{} dense gradients for a local model of {} values", grads.size(),
         values_.size());
  const storage::UpdateKernel kernel = optimizer_->kernel({++step_, optimizer_->learning_rate(model_step)});
  const std::span<float> rows(values_), slots(slots_);
  std::vector<float> row(kDenseChunk), row_slots(slot_init_.size());
  std::vector<float> change(rows.size());
  const FlushDenormals flush;  // as where the rule is applied to rows of a store
  for (size_t begin = 0, slot = 0; begin < rows.size(); begin += kDenseChunk, slot += slot_init_.size()) {
    const std::span<const float> grad = grads.subspan(begin, kDenseChunk);
    if (!all_below(kInfiniteGradient, grad)) continue;
    std::copy_n(&rows[begin], kDenseChunk, row.begin());
    std::copy_n(slots.begin() + static_cast<ptrdiff_t>(slot), row_slots.size(), row_slots.begin());
    kernel(row, row_slots, grad);
    if (!all_finite(row) || !all_finite(row_slots)) continue;
    std::transform(row.begin(), row.end(), &rows[begin], &change[begin], std::minus<>());
    std::copy(row.begin(), row.end(), &rows[begin]);
    std::copy(row_slots.begin(), row_slots.end(), slots.begin() + static_cast<ptrdiff_t>(slot));
  }
  return change;
}

FloatBuffer LocalModel::values() const {
  FloatBuffer copy(values_.size());
  std::copy(values_.begin(), values_.end(), copy.data());
  return copy;
}

}  // namespace embers
