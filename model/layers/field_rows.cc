#include "model/layers/field_rows.h"

#include "base/errors.h"

namespace embers {
namespace {

constexpr int64_t kOneField = -1;
int64_t fields_in(int64_t count) { return count == kOneField ? 1 : count; }

}  // namespace

FieldParts::FieldParts(at::TensorList parts) {
  if (parts.empty()) fail(ErrorCode::kInvalid, "an interaction of fields needs at least one");
  for (const torch::Tensor& part : parts) {
    const bool one = part.dim() == 2;
    if (!one && part.dim() != 3)
      fail(ErrorCode::kInvalid, "fields must be [N, D] or [N, fields, D], but a tensor has {} dimensions",
           part.dim());
    const int64_t dim = part.size(-1);
    if (!parts_.empty() && (part.size(0) != examples() || dim != shape_.dim))
      fail(ErrorCode::kInvalid, "fields of {} examples and {} floats stand beside fields of {} and {}",
           part.size(0), dim, examples(), shape_.dim);
    counts_.push_back(one ? kOneField : part.size(1));
    shape_.fields += fields_in(counts_.back());
    shape_.dim = dim;
    parts_.push_back(part.contiguous());
  }
}

std::vector<FieldRows<const float>> FieldParts::rows() const {
  std::vector<FieldRows<const float>> rows;
  for (size_t p = 0; p < parts_.size(); ++p) {
    const float* const first = parts_[p].data_ptr<float>();
    for (int64_t f = 0; f < fields_in(counts_[p]); ++f)
      rows.push_back({first + f * shape_.dim, parts_[p].stride(0)});
  }
  return rows;
}

std::vector<torch::Tensor> parts_of(const torch::Tensor& fields, const std::vector<int64_t>& counts) {
  std::vector<torch::Tensor> parts;
  int64_t at = 0;
  for (const int64_t count : counts) {
    parts.push_back(count == kOneField ? fields.select(1, at) : fields.narrow(1, at, count));
    at += fields_in(count);
  }
  return parts;
}

}  // namespace embers
