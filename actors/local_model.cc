#include "actors/local_model.h"

#include <algorithm>

#include "schema/errors.h"

namespace embers {

LocalModel::LocalModel(const TableSpec& table)
    : optimizer_(storage::Optimizer::make(table.optimizer)),
      slot_init_(storage::slot_init(*optimizer_, kDenseChunk)) {}

void LocalModel::replace(std::span<const float> values) {
  values_.assign(values.begin(), values.end());
  if (!slots_.empty()) return;
  for (size_t chunk = 0; chunk < values.size() / kDenseChunk; ++chunk)
    slots_.insert(slots_.end(), slot_init_.begin(), slot_init_.end());
}

void LocalModel::update(std::span<const float> grads) {
  if (grads.size() != values_.size())
    fail(ErrorCode::kInternal, "{} dense gradients for a local model of {} values", grads.size(),
         values_.size());
  ++step_;
  const storage::UpdateKernel kernel = optimizer_->kernel({step_, optimizer_->learning_rate(step_)});
  const std::span<float> rows(values_), slots(slots_);
  for (size_t at = 0, slot = 0; at < rows.size(); at += kDenseChunk, slot += slot_init_.size())
    kernel(rows.subspan(at, kDenseChunk), slots.subspan(slot, slot_init_.size()),
           grads.subspan(at, kDenseChunk));
}

FloatBuffer LocalModel::values() const {
  FloatBuffer copy(values_.size());
  std::copy(values_.begin(), values_.end(), copy.data());
  return copy;
}

}  // namespace embers
